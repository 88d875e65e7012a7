// Package admin tests the admin API and the commands of an operator on a running Caddy, and the replay of
// access logs.
package admin

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

func TestAdmin_badRequests(t *testing.T) {
	t.Parallel()
	n := caddytest.Start(t, caddytest.Config("", "redis_ratelimit same 2 24h\nrespond ok"))
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
		{"a URL without a scheme", "POST", "explain", `{"url":"only.test/login","client_ip":"192.0.2.7"}`, 400, "http://"},
		{"a URL without a scheme but with a port", "POST", "explain", `{"url":"localhost:8080/","client_ip":"192.0.2.7"}`, 400, "http://"},
		{"a header of bytes that are no text", "POST", "explain", "{\"url\":\"/\",\"headers\":{\"X\":\"\xff\"},\"client_ip\":\"192.0.2.7\"}", 400, "UTF-8"},
		{"no address", "POST", "explain", `{"url":"/","client_ip":"unknown"}`, 400, "client_ip"},
		{"a port without a listener", "POST", "explain", `{"url":"http://localhost:1/","client_ip":"192.0.2.7"}`, 400, "port 1"},
		{"a method that is none", "POST", "explain", `{"url":"/","method":"GET IT","client_ip":"192.0.2.7"}`, 400, "method"},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := n.Ask(t, test.method, test.path, test.body)
			var caddys struct{ Error string }
			if err := json.Unmarshal([]byte(a.Body), &caddys); err != nil || a.Status != test.status || !strings.Contains(caddys.Error, test.says) {
				t.Errorf("got %v; want status %d and a word of %s", a, test.status, test.says)
			}
		})
	}
	if a := n.Get(t, "/"); a.Header.Get("X-Ratelimit-Remaining") != "0" {
		t.Errorf("got %v; want nothing changed", a)
	}
}

// TestAdmin_keysOfAnyBytes denies keys of odd bytes, lists them, reads their state and resets them.
func TestAdmin_keysOfAnyBytes(t *testing.T) {
	t.Parallel()
	caddytest.OnBothStores(t, func(t *testing.T, option, _ string) {
		n := caddytest.Start(t, caddytest.Config(option, "redis_ratelimit {header.X-Key}|{path} 1 24h {\nname odd\n}"+caddytest.ShowDecision))
		for _, key := range []string{"plain", `back\slash`, "b{ra}ce%|", "Zo\xc3\xab", "\xff\xfe\x80", strings.Repeat("long", 50)} {
			for range 3 {
				n.Get(t, "/", "X-Key: "+key)
			}
		}
		type topKey struct {
			Key    string
			Denied int64
		}
		top := caddytest.ParseJSON[struct{ Keys []topKey }](t, n.Ask(t, "GET", "top?policy=odd", ""))
		if len(top.Keys) != 6 {
			t.Fatalf("got %v, want six keys", top)
		}
		for _, k := range top.Keys {
			question, err := json.Marshal(map[string]string{"policy": "odd", "key": k.Key})
			if err != nil {
				t.Fatal(err)
			}
			type quota struct{ Limit, Remaining int64 }
			if s := caddytest.ParseJSON[quota](t, n.Ask(t, "POST", "state", string(question))); k.Denied != 2 || s != (quota{1, 0}) {
				t.Errorf("%s: denied %d times, %+v", k.Key, k.Denied, s)
			}
			if r := caddytest.ParseJSON[struct{ Deleted int }](t, n.Ask(t, "POST", "reset", string(question))); r.Deleted != 1 {
				t.Errorf("%s: %+v", k.Key, r)
			}
		}
		if a := n.Get(t, "/", "X-Key: \xff\xfe\x80"); a.Status != http.StatusOK {
			t.Errorf("got %v; want it reset", a)
		}
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
	for range 5 {
		n.Get(t, "/")
	}
	before := caddytest.ParseJSON[struct{ Keys []any }](t, n.Ask(t, "GET", "top", ""))
	for _, limit := range []string{"3", "4", "5"} {
		n.Reload(t, text(limit))
		if a := n.Load(t, "nonsense {"); a.Status == http.StatusOK {
			t.Fatal("an invalid configuration was loaded")
		}
	}
	policies := n.Ask(t, "GET", "policies", "")
	report := caddytest.ParseJSON[struct{ Policies []struct{ Limit int64 } }](t, policies)
	if len(report.Policies) != 1 || report.Policies[0].Limit != 5 || strings.Contains(policies.Body, "secretword") {
		t.Errorf("got %v", policies)
	}
	after := caddytest.ParseJSON[struct{ Keys []any }](t, n.Ask(t, "GET", "top", ""))
	if len(before.Keys) != 1 || len(after.Keys) != 1 {
		t.Errorf("top has %v, before %v", after, before)
	}
	n.Reload(t, "{\n\tadmin {$ADMIN}\n}\n:{$PORT} {\nrespond bare\n}")
	if a := n.Ask(t, "GET", "policies", ""); a.Status != http.StatusNotFound {
		t.Errorf("without limits: got %v", a)
	}
}

// TestAdmin_addressHint checks the hint that a policy counts an IPv6 client by its prefix.
func TestAdmin_addressHint(t *testing.T) {
	t.Parallel()
	n := caddytest.Start(t, caddytest.Config("", "redis_ratelimit {client_ip} 2 24h\nrespond ok"))
	a := n.Ask(t, "POST", "reset", `{"policy":"default","key":"2001:db8:1:2::42"}`)
	if r := caddytest.ParseJSON[struct{ Hint string }](t, a); !strings.Contains(r.Hint, "2001:db8:1:2::/64") {
		t.Errorf("got %v", a)
	}
	if output, code := n.Operate(t, "state", "--policy", "default", "--key", "2001:db8:1:2::42"); code != 0 || !strings.Contains(output, "Hint: ") {
		t.Errorf("exit code %d: %s", code, output)
	}
}

// TestState_redisDown has policies with and without a local fallback. Only the first kind has a state in
// the node.
func TestState_redisDown(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	n := caddytest.Start(t, caddytest.Config(caddytest.PatientRedis(server), "redis_ratelimit /local same 5 24h {\nname local\n}\nredis_ratelimit /closed same 5 24h {\nname closed\nfail_mode closed\n}"+caddytest.ShowDecision))
	caddytest.CheckQuota(t, n.Get(t, "/local"), 5, 4)
	caddytest.CheckQuota(t, n.Get(t, "/closed"), 5, 4)
	server.Kill()
	if a := n.Ask(t, "POST", "state", `{"policy":"local","key":"same"}`); a.Status != http.StatusServiceUnavailable || !strings.Contains(a.Body, `"remaining":4`) {
		t.Errorf("got %v; want the state of the node", a)
	}
	a := n.Ask(t, "POST", "state", `{"policy":"closed","key":"same"}`)
	if a.Status != http.StatusServiceUnavailable || strings.Contains(a.Body, "remaining") || strings.Contains(a.Body, "source") || !strings.Contains(a.Body, `"error":`) {
		t.Errorf("got %v; want an error and no state", a)
	}
	if output, code := n.Operate(t, "state", "--policy", "closed", "--key", "same"); code != 3 || strings.Contains(output, "remaining") {
		t.Errorf("exit code %d: %s", code, output)
	}
}

// TestState_wrongType has a key of another type, which Redis cannot decide by.
func TestState_wrongType(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	n := caddytest.Start(t, caddytest.Config(caddytest.PatientRedis(server), "redis_ratelimit same 5 24h"+caddytest.ShowDecision))
	n.Get(t, "/")
	type state struct {
		Error string
		Keys  []struct {
			Name, Type string
			TTL        float64
		}
	}
	found := caddytest.ParseJSON[state](t, n.Ask(t, "POST", "state", `{"policy":"default","key":"same"}`))
	if len(found.Keys) != 1 {
		t.Fatalf("got %+v", found)
	}
	client := server.Client(t)
	client.Del(t.Context(), found.Keys[0].Name)
	client.HSet(t.Context(), found.Keys[0].Name, "field", "value")
	a := n.Ask(t, "POST", "state", `{"policy":"default","key":"same"}`)
	odd := caddytest.ParseJSON[state](t, a)
	if a.Status != http.StatusServiceUnavailable || !strings.Contains(odd.Error, "WRONGTYPE") || len(odd.Keys) != 1 || odd.Keys[0].Type != "hash" || odd.Keys[0].TTL != -1 {
		t.Errorf("got %v; want the error, and the key beside it", a)
	}
}
