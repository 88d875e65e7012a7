// Package admin tests the admin API and the commands of an operator on a running Caddy, what Caddy says of a
// configuration while it runs, and the replay of access logs. No secret of a configuration shows.
package admin

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

func TestAdmin_badRequests(t *testing.T) {
	n := caddytest.InProcess(t, "redis_ratelimit same 2 24h\nrespond ok")
	n.Get(t, "/")
	for _, test := range []struct {
		name, method, path, body string
		status                   int
		says                     string
	}{
		{"no policy of the name", "POST", "state", `{"policy":"unknown","key":"k"}`, 404, "unknown"},
		{"no policy of the name to reset", "POST", "reset", `{"policy":"unknown"}`, 404, "unknown"},
		{"no policy of the name in a query", "GET", "top?policy=unknown", "", 404, "unknown"},
		{"no policy at all to reset", "POST", "reset", `{}`, 400, "policy"},
		{"no body", "POST", "reset", "", 400, "JSON"},
		{"half of the JSON", "POST", "reset", `{"policy":"defa`, 400, "JSON"},
		{"two questions", "POST", "reset", `{"policy":"default"}{"policy":"default"}`, 400, "follows"},
		{"a word that means nothing", "POST", "reset", `{"policy":"default","keys":"k"}`, 400, "keys"},
		{"a number for a name", "POST", "reset", `{"policy":7}`, 400, "JSON"},
		{"a list", "POST", "reset", `[]`, 400, "JSON"},
		{"a key that is no text", "POST", "reset", `{"policy":"default","key":["k"]}`, 400, "JSON"},
		{"a key with a half escape", "POST", "reset", `{"policy":"default","key":"\\x4"}`, 400, `\xNN`},
		{"no key but null to reset", "POST", "reset", `{"policy":"default","key":null}`, 400, "null"},
		{"no key but null to look at", "POST", "state", `{"policy":"default","key":null}`, 400, "null"},
		{"a key of bytes that are no text", "POST", "reset", "{\"policy\":\"default\",\"key\":\"\xff\"}", 400, `\xNN`},
		{"half a surrogate pair", "POST", "reset", `{"policy":"a","key":"\ud83d"}`, 400, "half a surrogate pair"},
		{"its other half", "POST", "reset", `{"policy":"a","key":"\ud83d\ud83d\ude00"}`, 400, "half a surrogate pair"},
		{"a whole pair, and a backslash before a u", "POST", "reset", `{"policy":"a","key":"\uD83D\uDE00\\ud83d"}`, 404, "a"},
		{"a policy of bytes that are no text", "POST", "reset", "{\"policy\":\"\xff\"}", 400, "UTF-8"},
		{"no key to look at", "POST", "state", `{"policy":"default"}`, 400, "key"},
		{"a huge body", "POST", "state", `{"policy":"` + strings.Repeat("x", 2<<20) + `"}`, 413, "bytes"},
		{"a body that is padded", "POST", "reset", `{"policy":"default"}` + strings.Repeat(" ", 2<<20), 413, "bytes"},
		{"reset by GET", "GET", "reset", "", 405, "POST"},
		{"policies by POST", "POST", "policies", "{}", 405, "GET"},
		{"no number of keys", "GET", "top?n=many", "", 400, "n:"},
		{"too many keys", "GET", "top?n=100000", "", 400, "n:"},
		{"no URL", "POST", "explain", `{"client_ip":"192.0.2.7"}`, 400, "url"},
		{"a URL that is none", "POST", "explain", `{"url":"http://[","client_ip":"192.0.2.7"}`, 400, "url"},
		{"a path alone", "POST", "explain", `{"url":"/login","client_ip":"192.0.2.7"}`, 400, "http://"},
		{"a URL without a scheme", "POST", "explain", `{"url":"only.test/login","client_ip":"192.0.2.7"}`, 400, "http://"},
		{"a URL without a scheme but with a port", "POST", "explain", `{"url":"localhost:8080/","client_ip":"192.0.2.7"}`, 400, "http://"},
		{"a header of bytes that are no text", "POST", "explain", "{\"url\":\"/\",\"headers\":{\"X\":\"\xff\"},\"client_ip\":\"192.0.2.7\"}", 400, "UTF-8"},
		{"no address", "POST", "explain", `{"url":"http://h/","client_ip":"unknown"}`, 400, "client_ip"},
		{"a port without a listener", "POST", "explain", `{"url":"http://localhost:1/","client_ip":"192.0.2.7"}`, 400, "port 1"},
		{"a method that is none", "POST", "explain", `{"url":"http://h/","method":"GET IT","client_ip":"192.0.2.7"}`, 400, "method"},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := n.Ask(t, test.method, test.path, test.body)
			var caddys struct{ Error string }
			if err := json.Unmarshal([]byte(a.Body), &caddys); err != nil || a.Status != test.status || !strings.Contains(caddys.Error, test.says) {
				t.Errorf("got %v; want status %d and a word of %s", a, test.status, test.says)
			}
		})
	}
	n.Get(t, "/").Want(t, 0, caddytest.Any, "X-Ratelimit-Remaining: 0") // nothing changed
}

// unexamined has a site count by the text of ?k as it stands. A value that passes through vars is not examined, so that keys
// have bytes that are unreadable in a value of the request.
func unexamined(site string) string {
	return "vars k {query.k}\n" + strings.NewReplacer("{header.X-Key}", "{vars.k}", "{query.k}", "{vars.k}").Replace(site)
}

// TestAdmin_keysOfAnyBytes denies keys of odd bytes, lists them, reads their state and resets them.
func TestAdmin_keysOfAnyBytes(t *testing.T) {
	site := unexamined("redis_ratelimit {query.k}|{path} 1 24h {\nname odd\n}" + caddytest.ShowDecision)
	caddytest.OnEachStore(t, site, func(t *testing.T, n *caddytest.Node, _ string) {
		keys := []string{"plain", `back\slash`, "b{ra}ce%|", "Zo\xc3\xab", "\xff\xfe\x80", "Capital", "\x00\x1b[2J\r\n\u202e"}
		keys = append(keys, strings.Repeat("long", 50))
		for _, key := range keys {
			n.GetTimes(t, 3, "/?k="+url.QueryEscape(key))
		}
		type topKey struct {
			Key    string
			Denied int64
		}
		top := caddytest.ParseJSON[struct{ Keys []topKey }](t, n.Ask(t, "GET", "top?policy=odd", ""))
		assert.FatalIf(t, len(top.Keys) != len(keys), "got %v, want %d keys", top, len(keys))
		for _, k := range top.Keys {
			question := assert.NoError(json.Marshal(map[string]string{"policy": "odd", "key": k.Key}))(t)
			type quota struct{ Limit, Remaining int64 }
			s := caddytest.ParseJSON[quota](t, n.Ask(t, "POST", "state", string(question)))
			assert.ErrorIf(t, k.Denied != 2 || s != (quota{1, 0}), "%s: denied %d times, %+v", k.Key, k.Denied, s)
			r := caddytest.ParseJSON[struct{ Deleted int }](t, n.Ask(t, "POST", "reset", string(question)))
			assert.ErrorIf(t, r.Deleted != 1, "%s: %+v", k.Key, r)
		}
		n.Get(t, "/?k=%ff%fe%80").Want(t, http.StatusOK, caddytest.Any) // reset
	})
}

// TestAdmin_reload checks that top keeps its counts and that policies are those of the new configuration.
func TestAdmin_reload(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	text := func(limit string) string {
		return caddytest.Config("redis_ratelimit {\nredis redis://:secretword@"+server.Addr+"\n}", "redis_ratelimit same "+limit+" 24h\nrespond ok")
	}
	n := caddytest.Start(t, text("2"))
	n.GetTimes(t, 5, "/")
	before := caddytest.ParseJSON[struct{ Keys []any }](t, n.Ask(t, "GET", "top", ""))
	for _, limit := range []string{"3", "4", "5"} {
		n.Reload(t, text(limit))
		a := n.Load(t, "nonsense {")
		assert.FatalIf(t, a.Status == http.StatusOK, "an invalid configuration was loaded")
	}
	policies := n.Ask(t, "GET", "policies", "")
	report := caddytest.ParseJSON[struct{ Policies []struct{ Limit int64 } }](t, policies)
	assert.ErrorIf(t, len(report.Policies) != 1 || report.Policies[0].Limit != 5 || strings.Contains(policies.Body, "secretword"), "got %v", policies)
	after := caddytest.ParseJSON[struct{ Keys []any }](t, n.Ask(t, "GET", "top", ""))
	assert.ErrorIf(t, len(before.Keys) != 1 || len(after.Keys) != 1, "top has %v, before %v", after, before)
	n.Reload(t, "{\n\tadmin {$ADMIN}\n}\n:{$PORT} {\nrespond bare\n}")
	n.Ask(t, "GET", "policies", "").Want(t, http.StatusNotFound, caddytest.Any)
}

// TestState_redisDown has policies with and without a local fallback. Only the first kind has a state in the node.
func TestState_redisDown(t *testing.T) {
	n, server := caddytest.OnRedis(t, "timeout 10s", `redis_ratelimit /local same 5 24h { name local }
	redis_ratelimit /closed same 5 24h { name closed; fail_mode closed }
	`+caddytest.ShowDecision)
	caddytest.CheckQuota(t, n.Get(t, "/local"), 5, 4)
	caddytest.CheckQuota(t, n.Get(t, "/closed"), 5, 4)
	server.Kill()
	n.Ask(t, "POST", "state", `{"policy":"local","key":"same"}`).Want(t, http.StatusServiceUnavailable, `*"remaining":4*`) // the state of the node
	a := n.Ask(t, "POST", "state", `{"policy":"closed","key":"same"}`)
	assert.ErrorIf(t, a.Status != http.StatusServiceUnavailable || strings.Contains(a.Body, "remaining") || strings.Contains(a.Body, "source") || !strings.Contains(a.Body, `"error":`), "got %v; want an error and no state", a)
	e := n.Ratelimit(t, "state", "--policy", "closed", "--key", "same")
	e.Want(t, 3)
	assert.ErrorIf(t, strings.Contains(e.String(), "remaining"), "got %v; want no state", e)
}

// TestState_wrongType has a key of another type, which Redis cannot decide by.
func TestState_wrongType(t *testing.T) {
	n, server := caddytest.OnRedis(t, "timeout 10s", "redis_ratelimit same 5 24h"+caddytest.ShowDecision)
	n.Get(t, "/")
	type state struct {
		Error string
		Keys  []struct {
			Name, Type string
			TTL        float64
		}
	}
	found := caddytest.ParseJSON[state](t, n.Ask(t, "POST", "state", `{"policy":"default","key":"same"}`))
	assert.FatalIf(t, len(found.Keys) != 1, "got %+v", found)
	client := server.Client(t)
	client.Del(t.Context(), found.Keys[0].Name)
	client.HSet(t.Context(), found.Keys[0].Name, "field", "value")
	a := n.Ask(t, "POST", "state", `{"policy":"default","key":"same"}`)
	odd := caddytest.ParseJSON[state](t, a)
	assert.ErrorIf(t, a.Status != http.StatusServiceUnavailable || !strings.Contains(odd.Error, "WRONGTYPE") || len(odd.Keys) != 1 || odd.Keys[0].Type != "hash" || odd.Keys[0].TTL != -1, "got %v; want the error, and the key beside it", a)
}

func freePort(t *testing.T) string {
	t.Helper()
	return strings.TrimPrefix(redistest.FreeAddr(t), "127.0.0.1:")
}

// unnamedWarnings returns the lines about handlers that share the policy default.
func unnamedWarnings(n *caddytest.Node) []caddytest.LogLine {
	return n.Log.Lines(func(l caddytest.LogLine) bool {
		return l.Logger == "redis_ratelimit" && l.Level == "warn" && strings.Contains(l.Message, " handlers without a name share the policy default")
	})
}

// TestUnnamed_warning loads handlers that share the policy default by accident, and such as do not.
func TestUnnamed_warning(t *testing.T) {
	n := caddytest.InProcess(t, "respond ok")
	port, second := freePort(t), freePort(t)
	const (
		unnamed = "redis_ratelimit /a/* {client_ip} 10 1m\nredis_ratelimit /b/* {client_ip} 10 1m\n"
		one     = "redis_ratelimit {client_ip} 10 1m\nrespond ok"
	)
	for _, test := range []struct {
		name, site, rest string
		handlers         int
		places           []string
	}{
		{"two paths", unnamed + "respond ok", "", 2, []string{" path /a/*; ", " path /b/*"}},
		{"in error routes, subroutes and responses", one + "\nroute /s {\nredis_ratelimit /s/* {client_ip} 10 1m\n}\nreverse_proxy /p 127.0.0.1:1 {\nhandle_response {\nredis_ratelimit {client_ip} 10 1m\n}\n}\nintercept {\nhandle_response {\nredis_ratelimit {client_ip} 10 1m\n}\n}\nhandle_errors {\nredis_ratelimit {client_ip} 10 1m\n}", "", 5,
			[]string{" all requests", " path /s path /s/*", " path /p responses", " responses; ", " errors"}},
		{"a block without a name", "redis_ratelimit /a {\nlimit 10\nwindow 1m\n}\nredis_ratelimit @get {client_ip} 10 1m\n@get {\nmethod GET HEAD\nheader X-Y *\n}", "", 2, []string{" path /a; ", " by header method GET,HEAD"}},
		{"two sites", one, "http://127.0.0.1:" + port + " {\n" + one + "\n}", 2, []string{":" + port + ") host 127.0.0.1"}},
		{"a site of many names", one, "http://a.test:" + port + ", http://b.test:" + port + ", http://c.test:" + port + ", http://d.test:" + port + ", http://e.test:" + port + " {\n" + one + "\n}", 2, []string{",c.test and 2 more"}},
		{"one handler", one, "", 0, nil},
		{"names", "redis_ratelimit /a {client_ip} 10 1m {\nname a\n}\nredis_ratelimit /b {client_ip} 10 1m {\nname b\n}", "", 0, nil},
		{"one of them named", "redis_ratelimit /a {client_ip} 10 1m {\nname a\n}\n" + one, "", 0, nil},
		{"the name default on purpose", strings.ReplaceAll(unnamed, "1m\n", "1m {\nname default\n}\n"), "", 0, nil},
		{"one site on two ports", "respond ok", "http://localhost:" + port + ", http://localhost:" + second + " {\n" + one + "\n}", 0, nil},
		{"a named route that two sites invoke", "invoke /a limited\ninvoke /b limited", "", 0, nil},
	} {
		text := caddytest.Config("", test.site)
		if test.rest != "" {
			text += "\n" + test.rest + "\n"
		}
		if strings.Contains(test.site, "invoke") {
			text += "\n&(limited) {\nredis_ratelimit {client_ip} 10 1m\n}\n"
		}
		before := len(unnamedWarnings(n))
		n.Reload(t, text)
		lines := unnamedWarnings(n)[before:]
		if test.handlers == 0 {
			assert.ErrorIf(t, len(lines) > 0, "%s: the log has %v; want no warning", test.name, lines)
			continue
		}
		if len(lines) != 1 || !strings.HasPrefix(lines[0].Message, strconv.Itoa(test.handlers)+" handlers ") {
			t.Errorf("%s: the log has %v; want one warning of %d handlers", test.name, lines, test.handlers)
			continue
		}
		for _, place := range test.places {
			assert.ErrorIf(t, !strings.Contains(lines[0].Text, place), "%s: %s\nhas no %q", test.name, lines[0].Text, place)
		}
	}
}

// TestPolicies_handlers lists who uses a policy, by HTTP and by the command.
func TestPolicies_handlers(t *testing.T) {
	t.Parallel()
	site := "redis_ratelimit {\npolicy login {\nmatch {\npath /login\n}\nlimit 3\nwindow 1m\n}\npolicy all {\nlimit 30\nwindow 1m\n}\n}\n"
	for i := range 12 {
		site += "redis_ratelimit /" + strconv.Itoa(i) + " {client_ip} 30 1m {\nname all\n}\n"
	}
	n := caddytest.Start(t, caddytest.Config("", site+"respond ok"))
	report := caddytest.ParseJSON[struct {
		Policies []struct {
			Name     string
			Handlers []struct{ Place, Match string }
		}
	}](t, n.Ask(t, "GET", "policies", ""))
	assert.ErrorIf(t, len(report.Policies) != 2 || len(report.Policies[0].Handlers) != 13 || len(report.Policies[1].Handlers) != 1 || !strings.HasSuffix(report.Policies[1].Handlers[0].Place, ") all requests") || report.Policies[1].Handlers[0].Match != "path /login", "got %+v", report)
	n.Ratelimit(t, "policies").Want(t, 0, ") path /3\n", "               and 3 more; --json lists all\n", "  handlers     srv0 (", ") all requests, match path /login\n")
}
