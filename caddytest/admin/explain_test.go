package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// winding is a site whose limits are reached through every kind of route.
const winding = `
	@gold header X-Plan gold
	map {header.X-Key} {plan.limit} {plan.weight} { a 10 2; b 5 3; default "" "" }
	vars tenant {header.X-Tenant}
	redir /old /new
	rewrite /alias /api/renamed
	handle_path /strip/* {
		redis_ratelimit {path} 8 24h { name stripped }
		respond "stripped"
	}
	handle /api/* {
		redis_ratelimit {
			policy plan { key {vars.tenant}; limit {plan.limit} 4; window 24h; weight {plan.weight} 1 }
			policy gold { key {vars.tenant}; limit 3; window 24h; match @gold }
			policy pretended { key {vars.tenant}; limit 1; window 24h; dry_run }
			exempt 192.0.2.0/24
			on_empty_key reject
		}
		respond "api"
	}
	handle /named/* { invoke counted }
	handle {
		redis_ratelimit {path} 6 24h { name rest }
		respond "rest"
	}`

// TestExplain_request explains each request before it is sent, and compares both results.
func TestExplain_request(t *testing.T) {
	caddytest.OnBothStores(t, func(t *testing.T, option, _ string) {
		text := caddytest.Config(option, winding)
		n := caddytest.Start(t, "{\n"+text[2:len(text)-len("}\n")]+"}\n\n&(counted) {\n\tredis_ratelimit {path} 7 24h {\n\t\tname named\n\t}\n\trespond named\n}\n")
		for _, test := range []struct{ path, headers string }{
			{"/", ""}, {"/some/where", ""}, {"/old", ""}, {"/named/x", ""}, {"/strip/x", ""}, {"/strip/y", ""},
			{"/api/x", `{"X-Tenant":["t1"]}`},
			{"/alias", `{"X-Tenant":["t2"],"X-Key":["a"]}`},
			{"/api/x", `{"X-Tenant":["t3"],"X-Key":["b"],"X-Plan":["gold"]}`},
			{"/api/x", `{"X-Tenant":"t4","X-Plan":"gold"}`},
			{"/api/x", `{}`},
		} {
			for i := range 6 {
				t.Run(fmt.Sprint(test.path, test.headers, "/", i), func(t *testing.T) {
					foretold := n.Explain(t, test.path, test.headers)
					var headers map[string]any // a string, or a list of strings
					if test.headers != "" {
						assert.Must(t, json.Unmarshal([]byte(test.headers), &headers))
					}
					var lines []string
					for name, values := range headers {
						lines = append(lines, name+": "+strings.Trim(fmt.Sprint(values), "[]"))
					}
					checkForetold(t, foretold, n.Get(t, test.path, lines...))
				})
			}
		}
		e := n.ExplainFor(t, "/api/x", `{"X-Tenant":["t1"]}`, "192.0.2.77")
		assert.ErrorIf(t, e.Decision != "exempt" || len(e.Policies) != 0, "an exempt client: %+v", e)
	})
}

// TestExplain_droppedHeaders has header fields that Caddy drops before its routes, and the ones that the server expects.
func TestExplain_droppedHeaders(t *testing.T) {
	const site = "redis_ratelimit {header.X_Api_Key}:{header.X-Other} 2 24h {\non_empty_key skip\n}\nrespond ok"
	headers := []string{"X_Api_Key: a", "X-Other: b"}
	for global, want := range map[string]string{"": "none", "servers {\nexpected_underscore_headers x_api_key\n}": "allowed"} {
		n := caddytest.Start(t, caddytest.Config(global, site))
		foretold := n.Explain(t, "/", `{"X_Api_Key":["a"],"X-Other":["b"]}`)
		assert.Equal(t, foretold.Decision, want, "the decision that is foretold with %q", global)
		answer := n.Get(t, "/", headers...)
		assert.ErrorIf(t, (answer.Header.Get("X-Ratelimit-Remaining") == "1") != (want == "allowed"), "with %q: %v", global, answer)
	}
}

// checkForetold compares the explanation with the response.
func checkForetold(t *testing.T, e caddytest.Explanation, a caddytest.Response) {
	t.Helper()
	want := map[string]int{"allowed": 200, "denied": 429, "rejected": 400, "none": 302, "exempt": 200}[e.Decision]
	assert.ErrorIf(t, a.Status != want, "foretold %+v, got %v", e, a)
	remaining, err := strconv.ParseInt(a.Header.Get("X-Ratelimit-Remaining"), 10, 64)
	if err != nil {
		assert.ErrorIf(t, e.Decision == "allowed" || e.Decision == "denied", "foretold %+v, got %v", e, a)
		return
	}
	for i := range e.Policies {
		p := &e.Policies[i]
		left := p.Remaining
		if e.Decision == "allowed" {
			left -= p.Weight
		}
		if !p.DryRun && left == remaining && a.Header.Get("X-Ratelimit-Limit") == fmt.Sprint(p.Limit) {
			return
		}
	}
	t.Errorf("foretold %+v, got %v", e, a)
}

// TestExplain_answeringHandlers has handlers that always respond, and others that may.
func TestExplain_answeringHandlers(t *testing.T) {
	const after = "\nredis_ratelimit same 5 24h {\nname after\n}\nrespond after\n}\n"
	n := caddytest.InProcess(t, "encode\ntracing\n"+
		"route /proxy {\nreverse_proxy 127.0.0.1:1"+after+
		"route /forward {\nforward_auth 127.0.0.1:1 {\nuri /\n}"+after+
		"route /files {\nfile_server"+after+
		"route /perhaps {\nfile_server {\npass_thru\n}"+after+
		"route /metrics {\nmetrics"+after+
		"route /handled {\nreverse_proxy 127.0.0.1:1 {\n@ok status 2xx\nhandle_response @ok {\nrespond ok\n}\n}"+after)
	for _, test := range []struct {
		path, decision string
		leftOut        string
	}{
		{"/proxy", "none", ""},
		{"/files", "none", ""},
		{"/metrics", "none", ""},
		{"/elsewhere", "none", ""},
		{"/perhaps", "allowed", "http.handlers.file_server"},
		{"/forward", "allowed", "http.handlers.reverse_proxy"},
		{"/handled", "allowed", "http.handlers.reverse_proxy"},
	} {
		a := n.Ask(t, "POST", "explain", `{"url":"`+n.URL+test.path+`","client_ip":"192.0.2.7"}`)
		e := caddytest.ParseJSON[struct {
			Decision string
			Skipped  []string
		}](t, a)
		assert.ErrorIf(t, e.Decision != test.decision || strings.Join(e.Skipped, " ") != test.leftOut, "%s: got %v; want %s, and left out: %s", test.path, a, test.decision, test.leftOut)
	}
	for _, path := range []string{"/proxy", "/files", "/metrics"} {
		n.Get(t, path).Want(t, 0, caddytest.Any, "X-Ratelimit-Limit:") // no policy is met
	}
}

// TestExplain_sameKeyTwice explains each request before it is sent. Its two handlers use one quota, and
// the first of them may be in dry run.
func TestExplain_sameKeyTwice(t *testing.T) {
	caddytest.OnBothStores(t, func(t *testing.T, option, _ string) {
		limits := func(path, more string) string {
			return "route " + path + " {\nredis_ratelimit {path} 5 24h {\nname twice\n" + more + "\n}\nredis_ratelimit {path} 5 24h {\nname twice\nweight 2\n}\nrespond ok\n}\n"
		}
		heavy := "route /heavy {\nredis_ratelimit {path} 5 24h {\nname twice\n}\nredis_ratelimit {path} 5 24h {\nname twice\nweight {query.weight} 1\n}\nrespond ok\n}\n"
		n := caddytest.Start(t, caddytest.Config(option, heavy+limits("/enforced", "")+limits("/pretended", "dry_run")))
		const most = "/heavy?weight=9223372036854775807"
		foretold := n.Explain(t, most, "")
		checkForetold(t, foretold, n.Get(t, most))
		for _, path := range []string{"/enforced", "/pretended"} {
			for range 2 { // the second is denied, by the second handler
				foretold := n.Explain(t, path, "")
				checkForetold(t, foretold, n.Get(t, path))
			}
		}
	})
}

// TestExplain_serverByAddress has several servers on one port.
func TestExplain_serverByAddress(t *testing.T) {
	t.Parallel()
	site := func(address, name string) string {
		return ":{$PORT} {\nbind " + address + "\nredis_ratelimit {http.request.local.host} 5 24h {\nname " + name + "\n}\nrespond ok\n}\n"
	}
	n := caddytest.Start(t, "{\nadmin {$ADMIN}\nauto_https off\n}\n"+site("127.0.0.1", "one")+site("127.0.0.2", "two"))
	for address, name := range map[string]string{"127.0.0.1": "one", "127.0.0.2": "two"} {
		url := strings.Replace(n.URL, "127.0.0.1", address, 1)
		n.Ask(t, "POST", "explain", `{"url":"`+url+`/","client_ip":"192.0.2.7"}`).Want(t, 0, "*"+`"policy":"`+name+`","key":"`+address+`"`+"*")
	}
	url := strings.Replace(n.URL, "127.0.0.1", "example.com", 1)
	n.Ask(t, "POST", "explain", `{"url":"`+url+`/","client_ip":"192.0.2.7"}`).Want(t, http.StatusBadRequest, "*several servers*") // asks for an address
}

// TestExplain_localAddress has a key with the local address: the one of the site, not of the admin endpoint.
func TestExplain_localAddress(t *testing.T) {
	n := caddytest.InProcess(t, "redis_ratelimit {http.request.local}|{http.request.local.port} 5 24h\nrespond ok")
	address := strings.TrimPrefix(n.URL, "http://")
	want := `"key":"` + address + "|" + address[strings.LastIndex(address, ":")+1:] + `"`
	for _, url := range []string{n.URL + "/", strings.Replace(n.URL, "127.0.0.1", "example.com", 1)} {
		n.Ask(t, "POST", "explain", `{"url":"`+url+`","client_ip":"192.0.2.7"}`).Want(t, 0, "*"+want+"*")
	}
}

// TestExplain_hostHeader names the site by a header, as curl does.
func TestExplain_hostHeader(t *testing.T) {
	n := caddytest.InProcess(t, "redis_ratelimit {host} 5 24h\nrespond ok")
	n.Ask(t, "POST", "explain", `{"url":"`+n.URL+`","headers":{"Host":"only.test"},"client_ip":"::1"}`).Want(t, 0, `*"key":"only.test"*`)
}

// TestExplain_redisHangs checks that explain waits once, and that policies in dry run fail locally.
func TestExplain_redisHangs(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var limits strings.Builder
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		limits.WriteString("policy " + name + " {\nkey same\nlimit 5\nwindow 24h\n}\n")
	}
	n := caddytest.Start(t, caddytest.Config(caddytest.RedisAt(server.Addr, "timeout 5s"),
		"redis_ratelimit {\nfail_mode closed\n"+limits.String()+"policy g {\nkey same\nlimit 5\nwindow 24h\ndry_run\n}\n}"+caddytest.ShowDecision))
	n.Get(t, "/")
	server.Pause(t)
	defer server.Resume(t)
	e := n.Explain(t, "/", "") // a wait for each policy would be longer than the client's
	assert.FatalIf(t, e.Decision != "denied" || len(e.Policies) != 7, "got %+v", e)
	at := slices.IndexFunc(e.Policies, func(p caddytest.ExplainedPolicy) bool { return p.Decision != "failed_closed" })
	pretending := e.Policies[6]
	assert.ErrorIf(t, at != 6 || pretending.Decision != "allowed" || pretending.Source != "fallback" || pretending.Remaining != 4, "got %+v", e)
}

// TestExplain_redisRefusesWrites explains requests on a node that has seen none of the clients, while Redis can deny
// and takes nothing.
func TestExplain_redisRefusesWrites(t *testing.T) {
	t.Parallel()
	for setting, value := range map[string]string{"maxmemory": "1", "min-replicas-to-write": "1"} {
		t.Run(setting, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			text := caddytest.Config(caddytest.PatientRedis(server), "redis_ratelimit {\npolicy bans {\nkey {header.X-Key}\nlimit 2\nwindow 24h\nban 1h after 2\n}\npolicy all {\nkey {header.X-Key}\nlimit 10\nwindow 24h\n}\n}\n"+caddytest.ShowDecision)
			limits, n := caddytest.Start(t, text), caddytest.Start(t, text)
			limits.GetTimes(t, 2, "/", "X-Key: full")
			limits.GetTimes(t, 4, "/", "X-Key: banned")
			assert.Must(t, server.Client(t).ConfigSet(t.Context(), setting, value).Err())
			for _, key := range []string{"banned", "full"} {
				e := n.Explain(t, "/", `{"X-Key":"`+key+`"}`)
				assert.ErrorIf(t, e.Decision != "denied" || e.Policies[0].Source != "redis" || e.Policies[1].Decision != "allowed", "%s: got %+v", key, e)
				n.Get(t, "/", "X-Key: "+key).Want(t, 0, "denied redis")
			}
			e := n.Explain(t, "/", `{"X-Key":"new"}`)
			assert.ErrorIf(t, e.Decision != "allowed" || e.Policies[0].Source != "fallback", "a new client: got %+v", e)
			n.Get(t, "/", "X-Key: new").Want(t, 0, "allowed fallback")
		})
	}
}
