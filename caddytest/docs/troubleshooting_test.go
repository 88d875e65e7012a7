package docs

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// symptom is a section of docs/troubleshooting.md.
type symptom struct {
	*testing.T

	heading string
	blocks  []string // what it shows
}

// shows fails unless the section shows a part of what was printed.
func (s symptom) shows(printed, part string) {
	s.Helper()
	words := func(text string) string { return strings.Join(strings.Fields(text), " ") }
	for _, block := range s.blocks {
		if strings.Contains(words(block), words(part)) {
			assert.ErrorIf(s, !strings.Contains(words(printed), words(part)), "%s: %q is missing in\n%s", s.heading, part, printed)
			return
		}
	}
	s.Errorf("%s: the section does not show %q", s.heading, part)
}

// inProcess starts a Caddy without Redis.
func inProcess(s symptom, site string) *caddytest.Node {
	s.Helper()
	return caddytest.Start(s, caddytest.Config("", site))
}

// checked returns what check says of a site.
func checked(t *testing.T, site string) string {
	t.Helper()
	path := caddytest.WriteCaddyfile(t, caddytest.Config("", site))
	ending := caddytest.RunRatelimit(t, []string{"PORT=8080", "ADMIN=localhost:0"}, "check", "--config", path)
	return ending.Stdout + ending.Stderr
}

// symptoms play the sections of the page.
var symptoms = map[string]func(symptom){
	"Nothing is denied": func(s symptom) {
		n := inProcess(s, "redis_ratelimit /login/* {client_ip} 5 15m\nrespond Hello.")
		for range 6 {
			n.Get(s, "/login").Want(s, http.StatusOK, "Hello.")
		}
		s.shows(n.Ratelimit(s, "policies").Stdout, "! since start never met")
		n.Get(s, "/login/form").Want(s, http.StatusOK, "Hello.", "X-Ratelimit-Remaining: 4")
		n = inProcess(s, "redis_ratelimit /login* {client_ip} 5 15m\nrespond Hello.")
		n.Get(s, "/login").Want(s, http.StatusOK, "Hello.", "X-Ratelimit-Remaining: 4")

		counting := func(status string) string {
			return "redis_ratelimit {client_ip} 5 15m {\ncount_if status " + status + "\n}\nrespond \"Wrong password.\""
		}
		n = inProcess(s, counting("401 403"))
		for range 100 {
			n.Send(s, http.MethodPost, n.URL+"/", "").Want(s, http.StatusOK, caddytest.Any)
		}
		s.shows(n.Ratelimit(s, "policies").Stdout, "count_if matched 0 of 100 responses")
		n = inProcess(s, counting("2xx 4xx"))
		for range 5 {
			n.Send(s, http.MethodPost, n.URL+"/", "").Want(s, http.StatusOK, caddytest.Any)
		}
		n.Send(s, http.MethodPost, n.URL+"/", "").Want(s, http.StatusTooManyRequests, caddytest.Any)

		s.shows(checked(s.T, "redis_ratelimit {remote} 5 15m\nrespond Hello."), "the key has {remote}, which has the port of the connection, so that each connection has a quota of its own")
		n = inProcess(s, "redis_ratelimit {client_ip} 5 15m {\ndry_run\n}\nrespond Hello.")
		for range 7 {
			n.Get(s, "/").Want(s, http.StatusOK, "Hello.")
		}
		printed := n.Ratelimit(s, "policies").Stdout
		assert.ErrorIf(s, !strings.Contains(printed, "2 would be denied"), "got %s", printed)
	},
	"Everybody is denied at once": func(s symptom) {
		n := inProcess(s, "redis_ratelimit {client_ip} 5 1h\nrespond Hello.")
		for range 110 {
			n.Get(s, "/", "X-Forwarded-For: 203.0.113.7")
		}
		printed := n.Ratelimit(s, "top").Stdout
		s.shows(printed, "DENIED ±ERROR POLICY KEY 105 ±0 default 127.0.0.1")
		assert.ErrorIf(s, strings.Count(printed, "127.0.0.1") != 1 || strings.Contains(printed, "203.0.113.7"), "got %s; want one key", printed)
		s.shows(n.Log.String(), "each of the first 100 requests came with a public address in X-Forwarded-For or Forwarded, and none was believed")
		n = caddytest.Start(s, caddytest.Quietly(caddytest.Config("servers { trusted_proxies static 127.0.0.0/8; client_ip_headers X-Gateway }", "redis_ratelimit {client_ip} 5 1h\nrespond Hello.")))
		const hidden = "each of the first 1,000 requests that a policy denied came from one private address, and no header named a client"
		for range 5 + 999 {
			n.Get(s, "/", "X-Gateway: 172.17.0.1")
		}
		assert.ErrorIf(s, strings.Contains(n.Log.String(), hidden), "it is said before 1,000 denials")
		for range 1000 {
			n.Get(s, "/", "X-Gateway: 172.17.0.1")
		}
		s.shows(n.Log.String(), hidden)
		assert.Equal(s, strings.Count(n.Log.String(), hidden), 1, "how often it is said")
		refused := checked(s.T, "redis_ratelimit client_ip 100 1m\nrespond Hello.")
		assert.ErrorIf(s, !strings.Contains(refused, "{client_ip}"), "got %s; want the placeholder named", refused)
		s.shows("redis_ratelimit client_ip 100 1m", "redis_ratelimit client_ip 100 1m")
	},
	"Requests wait in vain": func(s symptom) {
		upstream := caddytest.NewHolder(s)
		n := inProcess(s, "redis_ratelimit {\npolicy gpu {\nmax_concurrent 8\nwait 30s\n}\n}\nreverse_proxy "+upstream.Addr)
		for range 8 {
			upstream.Begin(s, n, "/")
		}
		for i := range 12 {
			n.Hold(s, "/")
			n.CheckMetric(s, `waiting{policy="gpu"}`, float64(i+1))
		}
		s.shows(n.Ratelimit(s, "explain", "--url", n.URL, "--client-ip", "127.0.0.1").Stdout,
			"gpu: waits for 1 unit of the 8 that may run, for up to 30 s; waiting here: 12")
		n.Ratelimit(s, "state", "--policy", "gpu", "--key", "127.0.0.1").Want(s, 0, "waiting here  12, the oldest for ")
	},
	"Requests are counted twice": func(s symptom) {
		const twice = "route {\nredis_ratelimit {client_ip} 5 15m {\nname site\n}\nredis_ratelimit {client_ip} 5 15m {\nname site\n}\nrespond Hello.\n}"
		s.shows(checked(s.T, twice), "the same limits stand twice")
		n := inProcess(s, twice)
		n.Get(s, "/").Want(s, http.StatusOK, "Hello.", "X-Ratelimit-Remaining: 3")
	},
	"A client fails and does not say why": func(s symptom) {
		const preflight = "Access-Control-Request-Method: GET"
		n := inProcess(s, "log\nredis_ratelimit {client_ip} 1 1h\nrespond Hello.")
		n.Get(s, "/").Want(s, http.StatusOK, "Hello.")
		n.Send(s, http.MethodOptions, n.URL+"/", "", preflight).Want(s, http.StatusTooManyRequests, caddytest.Any)
		assert.Retry(s, "the access log has the denial", func() (again bool, seen any) {
			return !strings.Contains(n.Log.String(), `"ratelimit_decision":"denied"`), n.Log.String()
		})
		s.shows(n.Log.String(), `"ratelimit_decision":"denied"`)
		printed := n.Ratelimit(s, "top").Stdout
		assert.ErrorIf(s, !strings.Contains(printed, "127.0.0.1"), "got %s; want the key", printed)
	},
	"A form gets 400 or 415": func(s symptom) {
		site := func(value, matcher string) string {
			return "redis_ratelimit /login {\nkey {" + value + "}\nlimit 5\nwindow 15m\non_empty_key reject\n" + matcher + "\n}\nrespond Hello."
		}
		const body = `{"email":"bob@example.com"}`
		n := inProcess(s, site("form.email", ""))
		n.Send(s, http.MethodPost, n.URL+"/login", body, ofJSON).Want(s, http.StatusUnsupportedMediaType, caddytest.Any)
		n.Get(s, "/login").Want(s, http.StatusBadRequest, caddytest.Any)
		s.shows(n.Log.String(), "the request's body has no value that all applications read (type)")
		n.CheckMetric(s, `invalid_values_total{option="key",policy="default",reason="type"}`, 1)
		n = inProcess(s, site("json.email", "match method POST"))
		n.Send(s, http.MethodPost, n.URL+"/login", body, ofJSON).Want(s, http.StatusOK, "Hello.", "X-Ratelimit-Remaining: 4")
		n.Get(s, "/login").Want(s, http.StatusOK, "Hello.")
	},
	"Requests get 431": func(s symptom) {
		const site = "redis_ratelimit {client_ip} 5 1h\nrespond Hello."
		cookies := "Cookie: " + strings.Repeat("c", 24<<10)
		n := caddytest.Start(s, caddytest.Config("", "log\n"+site))
		a := n.Get(s, "/", cookies)
		s.shows(fmt.Sprintf("HTTP/1.1 %d %s", a.Status, http.StatusText(a.Status)), "HTTP/1.1 431 Request Header Fields Too Large")
		n.Get(s, "/").Want(s, http.StatusOK, "Hello.", "X-Ratelimit-Remaining: 4")
		assert.ErrorIf(s, strings.Contains(n.Log.String(), `"status":431`), "the access log has the request: %s", n.Log)
		n = caddytest.Start(s, caddytest.Config("servers {\nmax_header_size 64KB\n}", site))
		n.Get(s, "/", cookies).Want(s, http.StatusOK, "Hello.", "X-Ratelimit-Remaining: 4")
	},
	"The wrong client is limited": func(s symptom) {
		n := inProcess(s, "redis_ratelimit {client_ip} 5 15m\nrespond Hello.")
		printed := n.Ratelimit(s, "explain", "--url", n.URL+"/", "--client-ip", "2001:db8:1:2::7").Stdout
		assert.ErrorIf(s, !strings.Contains(printed, "2001:db8:1:2::/64"), "got %s", printed)
		s.shows("--client-ip 2001:db8:1:2::7", "--client-ip 2001:db8:1:2::7")
	},
	"After a reload": func(s symptom) {
		site := func(name, limit string) string {
			return caddytest.Config("", "redis_ratelimit {client_ip} "+limit+" {\nname "+name+"\n}\nrespond Hello.")
		}
		n := caddytest.Start(s, site("site", "5 1h"))
		n.Get(s, "/").Want(s, http.StatusOK, "Hello.", "X-Ratelimit-Remaining: 4")
		for _, change := range []struct{ name, limit, left string }{
			{"site", "10 1h", "8"}, {"site", "10 2h", "9"}, {"other", "10 1h", "9"},
		} {
			n.Reload(s, site(change.name, change.limit))
			n.Get(s, "/").Want(s, http.StatusOK, "Hello.", "X-Ratelimit-Remaining: "+change.left)
		}
	},
	"Redis": func(s symptom) {
		server := redistest.Start(s)
		n := caddytest.Start(s, caddytest.Config(caddytest.PatientRedis(server), "redis_ratelimit {client_ip} 100 1h"+caddytest.ShowDecision))
		caddytest.WaitForRedis(s, n, "/")
		n.Ratelimit(s, "policies", "--fail").Want(s, 0)
		server.Kill()
		n.Get(s, "/").Want(s, http.StatusOK, "allowed fallback")
		ending := n.Ratelimit(s, "policies", "--fail")
		ending.Want(s, 1, "since")
		server.Run(s)
		caddytest.WaitForRedis(s, n, "/")
		caddytest.CheckOutageLog(s, n)
		s.shows(n.Log.String(), "redis cannot decide; handlers do what their fail_mode says")
		s.shows(n.Log.String(), "redis decides again")
		assert.Retry(s, "the loss is logged", func() (again bool, seen any) {
			assert.Must(s, server.Client(s).FlushAll(s.Context()).Err())
			return !n.Log.Has("redis has lost its data"), "not yet"
		})
		s.shows(n.Log.String(), "redis has lost its data")
	},
}

func TestTroubleshooting(t *testing.T) {
	t.Parallel()
	sections := strings.Split(caddytest.ReadFile(t, "docs/troubleshooting.md"), "\n## ")[1:]
	assert.FatalIf(t, len(sections) != len(symptoms), "%d sections, %d tests", len(sections), len(symptoms))
	for _, section := range sections {
		heading, text, _ := strings.Cut(section, "\n")
		t.Run(heading, func(t *testing.T) {
			t.Parallel()
			play := symptoms[heading]
			assert.FatalIf(t, play == nil, "the section has no test")
			play(symptom{t, heading, regexp.MustCompile("(?s)```\n(.*?)```").FindAllString(text, -1)})
		})
	}
}
