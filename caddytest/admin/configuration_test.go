package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// TestUnwritten_warning loads limits by headers of a login, which stand before it, behind it or without one.
func TestUnwritten_warning(t *testing.T) {
	t.Parallel()
	const (
		limit = "redis_ratelimit {header.remote-user} 10 1m\n"
		own   = "redis_ratelimit {header.X-My-User} 10 1m\n"
		plan  = "redis_ratelimit {\nlimit {header.X-My-User} 10\nwindow 1m\n}\n"
		login = "forward_auth 127.0.0.1:1 {\nuri /\ncopy_headers Remote-User X-Name>X-My-User\n}\n"
		basic = "basic_auth {\nbob $2a$14$Zkx19XLiW6VYouLHR5NmfOFU0z2GTNmpkT/5qqR7hx4IjWJPDhjvG\n}\n"
		named = "&(login) {\n" + login + "}\n"
	)
	n := caddytest.Start(t, caddytest.Config("", "respond ok"))
	warnings := func() []caddytest.LogLine {
		return n.Log.Lines(func(l caddytest.LogLine) bool {
			return l.Level == "warn" && strings.HasPrefix(l.Message, "the limit reads the header ")
		})
	}
	for _, test := range []struct {
		name, site string
		want       []string // of each warning
	}{
		{"before the login", limit + login, []string{"put both into a route"}},
		{"a header of its own", own + login, []string{"put both into a route"}},
		{"a limit by it", plan + login, []string{"put both into a route"}},
		{"at two paths", "handle /a/* {\n" + limit + "}\nhandle {\n" + limit + "}", []string{"path /a/*", "have a proxy in front"}},
		{"a login inside", limit + "handle /a/* {\n" + login + "}", []string{"put both into a route"}},
		{"a login for others", "handle /a/* {\n" + limit + "}\nhandle {\n" + login + "}", []string{"have a proxy in front"}},
		{"without a login", limit, []string{"have a proxy in front"}},
		{"without a login, by an unknown header", own, nil},
		{"behind the login", "route {\n" + login + limit + own + "}", nil},
		{"before the login, in a route", "route {\n" + limit + login + "}", []string{"put both into a route"}},
		{"inside, behind the login", login + "handle {\n" + limit + "}", nil},
		{"by request_header", "route {\nrequest_header Remote-User {http.auth.user.id}\n" + limit + "}", nil},
		{"cleared", "route {\nrequest_header -Remote-*\n" + limit + "}", nil},
		{"cleared, another header", "route {\nrequest_header -X-Internal-*\n" + limit + "}", []string{"have a proxy in front"}},
		{"cleared by its end", "route {\nrequest_header -*-User\n" + limit + "}", nil},
		{"cleared by its middle", "route {\nrequest_header -*Mote-u*\n" + limit + "}", nil},
		{"cleared with all", "route {\nrequest_header -*\n" + limit + "}", nil},
		{"a computed name", "route {\nrequest_header {vars.name} x\n" + limit + "}", nil},
		{"behind a login without headers", "route {\n" + basic + limit + "}", []string{"have a proxy in front"}},
		{"behind a named route", "route {\ninvoke login\n" + limit + "}", nil},
		{"behind a named route, before the login", "route {\ninvoke login\n" + limit + login + "}", []string{"unless a handler in front sets it too; put both into a route"}},
		{"behind a named route, a header of its own before request_header", "route {\ninvoke login\n" + own + "request_header +x-my-user a\n}", []string{"unless a handler in front"}},
		{"behind a named route, kept from the backend", "route {\ninvoke login\n" + limit + "request_header -Remote-User\n}", nil},
	} {
		before := len(warnings())
		text := caddytest.Config("", test.site)
		if strings.Contains(test.site, "invoke") {
			text += named
		}
		n.Reload(t, text)
		lines := warnings()[before:]
		if len(lines) != len(test.want) {
			t.Errorf("%s: the log has %v; want %d warnings", test.name, lines, len(test.want))
			continue
		}
		for i, want := range test.want {
			assert.ErrorIf(t, !strings.Contains(lines[i].Text, want), "%s: the log has %v; want %q in it", test.name, lines[i], want)
		}
	}
}

// TestNeverSet_warning misspells a placeholder of map, and has a key by one that nothing sets.
func TestNeverSet_warning(t *testing.T) {
	t.Parallel()
	text := caddytest.Config("", `map {header.X-Plan} {plan_limit} {plan-burst} {weight} { pro 900 800 2 }
	redis_ratelimit {
		name api
		key {jwt.sub}{client_ip}
		limit {plan_limt} 500
		window 24h
		algorithm token_bucket
		burst {plan-burst} 500
		weight {weight} 1
	}
	respond {plan_limit}`)
	n := caddytest.Start(t, text)
	warnings := func() (found []string) {
		for _, l := range n.Log.Lines(func(l caddytest.LogLine) bool { return strings.HasPrefix(l.Message, "a placeholder was empty") }) {
			var fields struct{ Policy, Option, Placeholder string }
			assert.Must(t, json.Unmarshal([]byte(l.Text), &fields))
			found = append(found, fmt.Sprint(l.Level, " ", fields.Policy, " ", fields.Option, " ", fields.Placeholder))
			assert.ErrorIf(t, strings.Contains(l.Text, "secret-plan"), "the log has a value of a client: %s", l.Text)
		}
		slices.Sort(found)
		return found
	}
	send := func(times int, plan string) {
		t.Helper()
		n.GetTimes(t, times, "/", "X-Plan: "+plan)
	}
	send(1, "pro")
	if send(98, "secret-plan"); len(warnings()) > 0 {
		t.Fatalf("got %q before 100 requests", warnings())
	}
	want := []string{"warn api key {jwt.sub}", "warn api limit {plan_limt}"}
	if send(50, "secret-plan"); !slices.Equal(warnings(), want) {
		t.Errorf("got %q, want %q", warnings(), want)
	}
	n.Reload(t, strings.Replace(text, "respond", "header X-New yes\nrespond", 1))
	if send(99, "pro"); !slices.Equal(warnings(), want) {
		t.Errorf("got %q after a reload, want %q", warnings(), want)
	}
	if send(1, "pro"); len(warnings()) != 4 {
		t.Errorf("got %q, want each of %q once more", warnings(), want)
	}
}

// TestSecrets_errors writes a URL with a password behind every option that takes none, and in place of an option, itself
// and as the value of a placeholder. Other rows are invalid configurations with passwords.
func TestSecrets_errors(t *testing.T) {
	t.Parallel()
	const url, placeholder = "redis://user:hunter2@127.0.0.1:1", "{env.WRONG_URL}"
	n := caddytest.Start(t, caddytest.Config("", "redis_ratelimit same 3 24h"+caddytest.ShowDecision),
		"WRONG_URL="+url, "WRONG_PORT=redis://user:hunter2%zz@host:port", "SECRET=hunter2%zz")
	redis := func(lines string) string { return "redis {\naddress 127.0.0.1:1\n" + lines + "\n}" }
	sentinel := func(lines string) string { return redis("mode sentinel\n" + lines) }
	tls := func(lines string) string { return redis("tls {\n" + lines + "\n}") }
	for name, option := range map[string]string{
		"address":           "redis {\naddress VALUE\n}",
		"second address":    "redis {\nmode cluster\naddress 127.0.0.1:1 VALUE\n}",
		"socket":            "redis {\naddress /VALUE\n}",
		"mode":              redis("mode VALUE"),
		"master":            sentinel("master VALUE"),
		"username":          redis("username VALUE"),
		"sentinel_username": sentinel("master m\nsentinel_username VALUE"),
		"credentials":       redis("credentials VALUE"),
		"source":            redis("credentials VALUE /x"),
		"path":              redis("credentials file VALUE"),
		"db":                redis("db VALUE"),
		"pool_size":         redis("pool_size VALUE"),
		"tls":               redis("tls VALUE"),
		"ca":                tls("ca VALUE"),
		"cert":              tls("cert VALUE\nkey /nowhere.pem"),
		"key":               tls("cert /dev/null\nkey VALUE"),
		"server_name":       tls("server_name VALUE"),
		"word of redis":     redis("VALUE"),
		"word of redis 2":   redis("VALUE VALUE"),
		"word of tls":       tls("VALUE"),
		"block":             redis("password a {\nVALUE\n}"),
		"two values":        redis("password VALUE VALUE"),
		"two URLs":          "redis VALUE VALUE",
		"URL and word":      "redis redis://127.0.0.1:1 {\nVALUE\n}",
		"password in URL":   "redis redis://u{VALUE}:p@127.0.0.1:1",
		"braces":            redis("password pa{hunter2}ss"),
		"timeout":           "timeout VALUE",
		"fail_mode":         "fail_mode VALUE",
		"key_prefix":        "key_prefix VALUE",
		"deny_cache":        "deny_cache VALUE",
		"local_share":       "local_share VALUE",
		"max_keys":          "memory {\nmax_keys VALUE\n}",
		"max_bodies":        "memory {\nmax_bodies VALUE\n}",
		"word of memory":    "memory {\nVALUE 3\n}",
		"word":              "VALUE VALUE",
		"hash_keys":         "hash_keys VALUE VALUE",

		"a URL that cannot be parsed":          "redis redis://user:hunter2%zz@127.0.0.1:6379",
		"a wrong scheme":                       "redis http://user:hunter2@127.0.0.1:6379",
		"a wrong port":                         "redis redis://user:hunter2@127.0.0.1:99999",
		"a wrong database":                     "redis redis://user:hunter2@127.0.0.1:6379/x",
		"a parameter":                          "redis redis://127.0.0.1:6379?password=hunter2",
		"a placeholder for the whole URL":      "redis {env.WRONG_PORT}",
		"a placeholder with a wrong port":      "redis redis://user:{env.SECRET}@127.0.0.1:port",
		"a secret where an address is":         "redis {\naddress {env.WRONG_PORT}\n}",
		"a URL where an address is":            "redis {\naddress redis://user:hunter2@127.0.0.1:6379\n}",
		"a second password":                    "redis {\naddress 127.0.0.1:1\npassword hunter2 hunter2\n}",
		"a URL and a block":                    "redis redis://user:hunter2@127.0.0.1:6379 {\ndb 3\n}",
		"a secret with the option's name gone": "redis {\naddress 127.0.0.1:1\nmaster m\npassword hunter2\n}",
	} {
		var a caddytest.Response
		for _, value := range []string{placeholder, url} {
			text := strings.ReplaceAll(option, "VALUE", value)
			a = n.Load(t, caddytest.Config("redis_ratelimit {\n"+text+"\n}", "redis_ratelimit same 3 24h"))
			assert.ErrorIf(t, a.Status != http.StatusBadRequest || strings.Contains(a.Body, "hunter2"), "%s: got %v; want status 400 without the password", name, a)
		}
		if !strings.Contains(option, "VALUE") || strings.Contains(a.Body, "adapting config") && name != "word" {
			continue // other rows have checked what the command shows, which is the adapter's error too
		}
		path := caddytest.WriteCaddyfile(t, "{\nredis_ratelimit {\n"+strings.ReplaceAll(option, "VALUE", url)+"\n}\n}\n:8080 {\nredis_ratelimit same 3 24h\n}\n")
		e := caddytest.RunRatelimit(t, nil, "check", "--config", path)
		assert.ErrorIf(t, strings.Contains(e.String(), "hunter2"), "%s: check shows the password: %v", name, e)
	}
	caddytest.CheckHidden(t, "the log", n.Log.String(), "hunter2")
}

// TestSecrets_refusedByRedis has wrong passwords, with errors of Redis and of the client.
func TestSecrets_refusedByRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--requirepass", "the right one")
	for name, option := range map[string]string{
		"URL":           "redis redis://someone:{env.REDIS_PASSWORD}@" + server.Addr,
		"block":         "redis {\naddress " + server.Addr + "\nusername someone\npassword {env.REDIS_PASSWORD}\n}",
		"cluster":       "redis {\nmode cluster\naddress " + server.Addr + "\npassword {env.REDIS_PASSWORD}\n}",
		"sentinel":      "redis {\nmode sentinel\nmaster m\naddress " + server.Addr + "\nsentinel_password {env.REDIS_PASSWORD}\n}",
		"no such host":  "redis redis://:{env.REDIS_PASSWORD}@nowhere.invalid:6379",
		"no such files": "redis unix://:{env.REDIS_PASSWORD}@/nowhere.sock",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := []string{"REDIS_PASSWORD=" + caddytest.Password, "SECRET=pepper and salt"}
			n := caddytest.Start(t, caddytest.Config("redis_ratelimit {\nhash_keys {env.SECRET}\n"+option+"\n}", "redis_ratelimit same 3 24h"+caddytest.ShowDecision), env...)
			n.Get(t, "/").Want(t, http.StatusOK, "allowed fallback")
			caddytest.CheckSecrets(t, n, env)
		})
	}
}

// TestPassword_rotation changes the password in Redis and in its file. The Caddyfile stays the same, so
// that the reload must be forced.
func TestPassword_rotation(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--requirepass", "first-secret")
	password := filepath.Join(t.TempDir(), "password")
	write := func(secret string) {
		assert.Must(t, os.WriteFile(password, []byte(secret), 0o600))
	}
	write("first-secret")
	text := caddytest.Config("redis_ratelimit {\nredis {\naddress "+server.Addr+"\npassword {file."+password+"}\n}\n}", "redis_ratelimit same 1000 24h"+caddytest.ShowDecision)
	n := caddytest.Start(t, text)
	caddytest.WaitForRedis(t, n, "/")
	ctx := context.Background()
	conn := server.Client(t).Conn()
	defer conn.Close() //nolint:errcheck // the test is over
	conn.Do(ctx, "auth", "first-secret")
	assert.Must(t, conn.ConfigSet(ctx, "requirepass", "second-secret").Err())
	conn.Do(ctx, "auth", "second-secret")
	conn.ClientKillByFilter(ctx, "TYPE", "normal", "SKIPME", "yes")
	n.Get(t, "/").Want(t, 0, "allowed fallback") // decided here, because the password is wrong now
	write("second-secret")
	n.Load(t, text, "Cache-Control: must-revalidate").Want(t, http.StatusOK, caddytest.Any)
	caddytest.WaitForRedis(t, n, "/")
	caddytest.CheckHidden(t, "the log", n.Log.String(), "first-secret")
	caddytest.CheckHidden(t, "the log", n.Log.String(), "second-secret")
}

// TestSharedLimit_patched changes a limit that two handlers share by Caddy's admin API: of one of them it is refused, with what to
// do, and of both at once it is taken.
func TestSharedLimit_patched(t *testing.T) {
	t.Parallel()
	const shared = "redis_ratelimit /a {client_ip} 5 1h {\nname api\n}\nredis_ratelimit /b {client_ip} 5 1h {\nname api\n}\nrespond ok"
	n := caddytest.Start(t, caddytest.Config("", shared))
	const path = "/config/apps/http"
	config := n.Send(t, http.MethodGet, n.Admin+path, "").Body
	patch := func(times int) caddytest.Response {
		changed := strings.Replace(config, `"limit":5`, `"limit":200`, times)
		return n.Send(t, http.MethodPatch, n.Admin+path, changed, "Content-Type: application/json")
	}
	refused := patch(1)
	assert.ErrorIf(t, refused.Status != http.StatusInternalServerError || !strings.Contains(refused.Body, "GET "+path+", write the same into each policy"),
		"one of two: got %v", refused)
	patch(-1).Want(t, http.StatusOK, caddytest.Any)
	caddytest.CheckQuota(t, n.Get(t, "/a"), 200, 199)
}
