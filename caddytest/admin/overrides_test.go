package admin

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// overridden is a site with a policy of a key, a bucket and a policy in dry run.
const overridden = `redis_ratelimit {
		exempt 127.0.0.2
		policy api { key {header.X-Key}; limit 2; window 24h }
		policy bucket {
			key {header.X-Key}
			match { path /bucket }
			limit 100
			burst 5
			window 1h
			algorithm token_bucket
		}
		policy tried {
			key {header.X-Key}
			match { path /tried }
			limit 2
			window 24h
			dry_run
		}
	}` + caddytest.ShowDecision

// want checks the body of a request, which is its decision.
func want(t *testing.T, n *caddytest.Node, path, key, body string) caddytest.Response {
	t.Helper()
	a := n.Get(t, path, "X-Key: "+key).Want(t, 0, body)
	return a
}

func TestOverride_actions(t *testing.T) {
	caddytest.OnEachStore(t, overridden, func(t *testing.T, n *caddytest.Node, source string) {
		for range 2 {
			want(t, n, "/", "acme", "allowed "+source)
		}
		want(t, n, "/", "acme", "denied "+source)
		n.Override(t, 200, `{"policy":"api","key":"acme","limit":5,"for":"2h","note":"tonight"}`)
		for left := range int64(3) { // the two that are used count on
			caddytest.CheckQuota(t, want(t, n, "/", "acme", "allowed "+source), 5, 2-left)
		}
		want(t, n, "/", "acme", "denied "+source)

		n.Override(t, 200, `{"policy":"api","key":"acme","block":true,"for":"90s"}`)
		a := want(t, n, "/", "acme", "denied override")
		wait, _ := strconv.Atoi(a.Header.Get("Retry-After"))
		assert.ErrorIf(t, a.Status != 429 || a.Header.Get("X-RateLimit-Remaining") != "0" || wait < 80 || wait > 90, "got %v; want 0 remaining, and to wait for the end of the block", a)
		n.Override(t, 200, `{"policy":"api","key":"acme","block":true}`)
		a = want(t, n, "/", "acme", "denied override")
		assert.ErrorIf(t, a.Header.Get("Retry-After")+a.Header.Get("X-RateLimit-Reset") != "" || a.Header.Get("X-RateLimit-Remaining") != "0", "got %v; want nothing that says when a block without an end passes", a)
		want(t, n, "/", "other", "allowed "+source)

		n.Override(t, 200, `{"policy":"api","key":"acme","exempt":true}`)
		want(t, n, "/", "acme", "exempt override").Want(t, 0, caddytest.Any, "X-RateLimit-Limit:")         // no headers
		want(t, n, "/bucket", "acme", "allowed "+source).Want(t, 0, caddytest.Any, "X-RateLimit-Limit: 5") // the other policy's headers
		n.Override(t, 200, `{"policy":"api","all":true,"block":true}`)
		want(t, n, "/", "acme", "exempt override") // its own goes first
		want(t, n, "/", "other", "denied override")
		n.Override(t, 200, `{"policy":"api","key":"acme","remove":true}`)
		want(t, n, "/", "acme", "denied override")
		n.Override(t, 200, `{"policy":"api","all":true,"remove":true}`)
		want(t, n, "/", "other", "allowed "+source)
		want(t, n, "/", "acme", "denied "+source)
		n.CheckMetric(t, `decisions_total{decision="denied",policy="api",source="override"}`, 4)
		n.CheckMetric(t, `overrides`, 0)
	})
}

// TestOverride_exempt_and_dry_run has a block of an exempt client, whose other requests are exempt, and one
// of a policy that pretends.
func TestOverride_exempt_and_dry_run(t *testing.T) {
	n := caddytest.InProcess(t, strings.Replace(overridden, "exempt 127.0.0.2", "exempt 127.0.0.1", 1))
	want(t, n, "/", "acme", "exempt ")
	n.Override(t, 200, `{"policy":"api","key":"acme","block":true}`)
	want(t, n, "/", "acme", "denied override")
	want(t, n, "/", "other", "exempt ")
	e := n.Explain(t, "/", `{"X-Key":["acme"]}`)
	assert.ErrorIf(t, e.Decision != "denied" || e.Policies[0].Source != "override", "explained as %+v", e)
	n = caddytest.Start(t, caddytest.Config("", overridden))
	n.Override(t, 200, `{"policy":"tried","key":"acme","block":true}`)
	want(t, n, "/tried", "acme", "allowed memory")
	n.CheckMetric(t, `decisions_total{decision="dry_run_denied",policy="tried",source="override"}`, 1)
}

func TestOverride_shown(t *testing.T) {
	caddytest.OnEachStore(t, overridden, func(t *testing.T, n *caddytest.Node, source string) {
		want(t, n, "/", "acme", "allowed "+source)
		n.Override(t, 200, `{"policy":"api","key":"acme","limit":50}`)
		n.Override(t, 200, `{"policy":"api","key":"bad","block":true}`)
		n.Override(t, 200, `{"policy":"api","key":"vip","exempt":true}`)
		n.Override(t, 200, `{"policy":"bucket","all":true,"limit":70}`)
		for key, wanted := range map[string]struct {
			decision, source string
			limit, remaining int64
		}{"acme": {"allowed", source, 50, 49}, "bad": {"denied", "override", 2, 0}, "vip": {"exempt", "", 0, 0}} {
			e := n.Explain(t, "/", `{"X-Key":["`+key+`"]}`)
			p := e.Policies[0]
			assert.ErrorIf(t, e.Decision != wanted.decision || p.Decision != wanted.decision || p.Source != wanted.source || p.Limit != wanted.limit || p.Remaining != wanted.remaining, "%s is explained as %+v, want %+v", key, e, wanted)
		}
		n.Ratelimit(t, "state", "--policy", "api", "--key", "acme").Want(t, 0, "limit        50", "remaining    49", "override     limit 50, until it is removed")
		n.Ratelimit(t, "state", "--policy", "api", "--key", "bad").Want(t, 0, "remaining    0", "retry after  never", "block")
		n.Ratelimit(t, "policies").Want(t, 0, "  overrides    3 clients\n", "  overrides    limit 70 for all\n")
		n.Ratelimit(t, "explain", "--url", n.URL+"/bucket", "-H", "X-Key: x").Want(t, 0, "OVERRIDE", "limit 70")
		got := caddytest.ParseJSON[struct{ Limit int64 }](t, n.Ask(t, "POST", "state", `{"policy":"bucket","key":"x"}`)).Limit
		assert.ErrorIf(t, got != 5, "the capacity is %d; want the burst that is configured", got)
		n.CheckMetric(t, "overrides", 4)
	})
}

// TestOverride_refused sends what is wrong. Nothing is changed by it.
func TestOverride_refused(t *testing.T) {
	n := caddytest.InProcess(t, overridden)
	for _, test := range []struct {
		body   string
		status int
		says   string
	}{
		{`{"policy":"nope","key":"acme","limit":5}`, 404, "none of this name"},
		{`{"policy":"nope","key":"acme","remove":true}`, 404, "none of this name"},
		{`{"policy":"api:acme","all":true,"remove":true}`, 404, "none of this name"},
		{`{"policy":"api","key":"acme","remove":true}`, 404, "no such override"},
		{`{"policy":"api","all":true,"remove":true}`, 404, "no such override"},
		{`{"key":"acme","limit":5}`, 400, "policy is missing"},
		{`{"policy":"","key":"192.0.2.1","block":true}`, 400, "policy: name one"},
		{`{"policy":"api","limit":5}`, 400, "give the key"},
		{`{"policy":"api","key":"a","all":true,"limit":5}`, 400, "give the key"},
		{`{"policy":"api","key":null,"limit":5}`, 400, "null"},
		{`{"policy":"api","key":"*","all":false}`, 400, "use one of limit, block"},
		{`{"policy":"api","key":"a","limit":5,"block":true}`, 400, "there are 2"},
		{`{"policy":"api","key":"a","limit":0}`, 400, "from 1, or block"},
		{`{"policy":"api","key":"a","limit":-5}`, 400, "from 1, or block"},
		{`{"policy":"api","key":"a","limit":1.5}`, 400, "number 1.5"},
		{`{"policy":"api","key":"a","limit":9223372036854775807}`, 400, "the largest that policy \\\"api\\\" takes is 52"},
		{`{"policy":"api","key":"a","limit":99999999999999999999}`, 400, "number"},
		{`{"policy":"api","key":"a","limit":5,"burst":2}`, 400, "burst: sliding_window_counter has none"},
		{`{"policy":"api","key":"a","burst":2}`, 400, "use one of"},
		{`{"policy":"bucket","key":"a","limit":5,"burst":0}`, 400, "burst 0"},
		{`{"policy":"bucket","key":"a","limit":5,"burst":4000000000000}`, 400, "the largest that"},
		{`{"policy":"api","key":"a","limit":5,"for":"-2h"}`, 400, "from 1s"},
		{`{"policy":"api","key":"a","limit":5,"for":"0s"}`, 400, "from 1s"},
		{`{"policy":"api","key":"a","limit":5,"for":""}`, 400, "use a duration"},
		{`{"policy":"api","key":"a","limit":5,"for":null}`, 400, "null"},
		{`{"policy":"api","key":"a","limit":5,"for":"4000d"}`, 400, "3650d"},
		{`{"policy":"api","key":"a","remove":true,"for":"1h"}`, 400, "for: remove"},
		{`{"policy":"api","key":"a","remove":true,"note":"x"}`, 400, "note: remove"},
		{`{"policy":"api","key":"a","unban":true}`, 400, "has no option ban"},
		{`{"policy":"api","key":"a","block":true,"note":"` + strings.Repeat("n", 257) + `"}`, 400, "257 bytes"},
		{`{"policy":"api","key":"a\\q","block":true}`, 400, "backslash"},
		{`{"policy":"api","key":"a","blok":true}`, 400, "unknown field"},
		{`{"policy":"api","key":"a","key":"b","block":true}`, 400, "twice"},
		{`{"policy":"api","key":"a","block":true,"Block":false,"exempt":true}`, 400, "twice"},
		{`{"policy":"api","all":false,"all":true,"block":true}`, 400, "twice"},
		{`{"policy":"api","key":"a","Key":"b","block":true}`, 400, "twice"},
		{`{"policy":"api","key":"a","block":true}{}`, 400, "something follows"},
		{`{"policy":"api","key":"` + strings.Repeat("k", 1<<20) + `","block":true}`, 413, "over"},
		{`{"policy":"api","key":"` + "\xff" + `","block":true}`, 400, "UTF-8"},
		{`[]`, 400, "JSON"},
		{``, 400, "JSON"},
	} {
		n.Override(t, test.status, test.body).Want(t, 0, "*"+test.says+"*")
	}
	n.Ask(t, http.MethodGet, "override", "").Want(t, 405, caddytest.Any)
	a := n.Ask(t, http.MethodGet, "overrides", "")
	assert.ErrorIf(t, strings.TrimSpace(a.Body) != `{"overrides":[]}`, "got %v; want no overrides", a)
}

// TestOverride_commands runs the commands as an operator, with a key and a note that mean harm.
func TestOverride_commands(t *testing.T) {
	caddytest.OnEachStore(t, unexamined(overridden), func(t *testing.T, n *caddytest.Node, _ string) {
		n.Ratelimit(t, "overrides").Want(t, 0, "no overrides")
		n.Ratelimit(t, "override", "--policy", "api", "--key", "acme", "--limit", "5000", "--for", "2h", "--note", "tonight").Want(t, 0,
			"policy    api", "clients   one", "key       acme", "override  limit 5000", "note      tonight", "until     "+strconv.Itoa(time.Now().UTC().Add(2*time.Hour).Year()))
		n.Ratelimit(t, "override", "--policy", "bucket", "--all", "--limit", "50", "--burst", "7").Want(t, 0, "clients   all", "limit 50, burst 7")
		evil := "\x1b[2J\u202eall\nfake  line"
		n.Ratelimit(t, "override", "--policy", "api", "--key", `\x1b[2Jall\x0afake`, "--block", "--note", evil).Want(t, 0, "block", `\x1b[2J\u202eall\x0afake  line`)
		listed := n.Ratelimit(t, "overrides")
		listed.Want(t, 0, "POLICY  CLIENTS", "all", `\x1b[2Jall\x0afake`)
		lines := strings.Count(listed.Stdout, "\n")
		assert.ErrorIf(t, lines != 4, "got %d lines, want a head and three rows: %v", lines, listed)
		got := n.Ratelimit(t, "overrides", "--json").ParseJSON(t)["overrides"]
		if text, err := json.Marshal(got); err != nil || strings.Count(string(text), `"policy"`) != 3 {
			t.Errorf("got %s", text)
		}
		n.Ratelimit(t, "override", "--policy", "api", "--key", "acme", "--remove").Want(t, 0, "override removed")
		n.Ratelimit(t, "override", "--policy", "api", "--key", "acme", "--remove").Want(t, 2, "no such override")
		assert.ErrorIf(t, strings.Contains(n.Log.String(), "fake") || strings.Contains(n.Log.String(), "tonight"), "a key or a note is in the log")
		n.Get(t, "/?k=%1b%5b2Jall%0afake").Want(t, http.StatusTooManyRequests, "denied override") // its address is in the log
	})
}

// TestOverride_flags gives the command what it refuses.
func TestOverride_flags(t *testing.T) {
	n := caddytest.InProcess(t, overridden)
	n.Ratelimit(t, "override", "--policy", "api", "--key", "a", "--limit", "5", "--block").Want(t, 1, "none of the others can be")
	n.Ratelimit(t, "override", "--policy", "api", "--key", "a", "--all", "--block").Want(t, 1, "none of the others can be")
	n.Ratelimit(t, "override", "--policy", "api", "--block").Want(t, 1, "use --key for one client, --range for addresses, or --all")
	n.Ratelimit(t, "override", "--policy", "api", "--key", "a").Want(t, 1, "use one of --limit")
	n.Ratelimit(t, "override", "--policy", "api", "--key", "a", "--limit", "x").Want(t, 1, "invalid argument")
	n.Ratelimit(t, "override", "--policy", "api", "--key", "a", "--limit", "5", "--for", "").Want(t, 2, "use a duration")
}

// TestOverride_hint has operators name an address that counts by its prefix: answers name the key.
func TestOverride_hint(t *testing.T) {
	n := caddytest.InProcess(t, "redis_ratelimit {client_ip} 2 24h {\nname api\n}\n"+caddytest.ShowDecision)
	n.Ratelimit(t, "override", "--policy", "api", "--key", "2001:db8::5", "--block").Want(t, 2, "IPv6 by /64: give the network of this one")
	n.Ratelimit(t, "override", "--policy", "api", "--key", "2001:db8::5", "--block", "--force").Want(t, 0, "2001:db8::/64")
	n.Ratelimit(t, "override", "--policy", "api", "--key", "2001:db8::5", "--remove").Want(t, 0)
	n.Ratelimit(t, "override", "--policy", "api", "--key", "2001:db8::/64", "--block").Want(t, 0, "key       2001:db8::/64\n")
	n.Ratelimit(t, "state", "--policy", "api", "--key", "2001:db8::5").Want(t, 0, "Hint: ", "2001:db8::/64")
	n.Ask(t, http.MethodPost, "reset", `{"policy":"api","key":"2001:db8::5"}`).Want(t, http.StatusOK, `*"hint":"*2001:db8::/64*`)
}

// TestOverride_impossible names keys that no request can have, and forces one of them. No line of the log has them.
func TestOverride_impossible(t *testing.T) {
	caddytest.OnBothStores(t, func(t *testing.T, option, _ string) {
		n := caddytest.Start(t, caddytest.Config(option, `redis_ratelimit {
			policy api { key {client_ip}:{path}; limit 2; window 24h; ban 1h }
			policy users { key {header.X-Key}; limit 2; window 24h; on_empty_key skip }
			policy all { key everyone; limit 2; window 24h }
		}`+caddytest.ShowDecision))
		for _, test := range []struct{ policy, key, says string }{
			{"api", "203.0.113.7", "its key is {http.vars.client_ip}:{http.request.uri.path}"},
			{"api", "acme:/", "Copy the key from top or explain"},
			{"users", "", "its key is {http.request.header.X-Key}"},
			{"users", "50%", "give force"},
			{"users", "%ip:203.0.113.7", "give force"},
			{"all", "everybody", "its key is everyone"},
		} {
			for _, action := range []string{"--block", "--exempt", "--limit=5"} {
				n.Ratelimit(t, "override", "--policy", test.policy, "--key", test.key, action).Want(t, 2, test.says)
			}
		}
		n.Override(t, 400, `{"policy":"api","key":"203.0.113.7","unban":true}`)
		n.Override(t, 404, `{"policy":"api","key":"203.0.113.7","remove":true}`)
		n.Override(t, 200, `{"policy":"api","key":"203.0.113.7","block":true,"force":true}`)
		n.Override(t, 200, `{"policy":"api","key":"203.0.113.7","remove":true}`)
		n.Ratelimit(t, "overrides").Want(t, 0, "no overrides")
		for _, right := range []string{`"api","key":"203.0.113.7:/login"`, `"users","key":"50%25"`, `"all","key":"everyone"`} {
			n.Override(t, 200, `{"block":true,"policy":`+right+`}`)
		}
		assert.ErrorIf(t, strings.Contains(n.Log.String(), "203.0.113.7") || strings.Contains(n.Log.String(), "acme"), "a key is in the log")
	})
}

// TestOverride_unchanged has answers say what an override leaves as it is.
func TestOverride_unchanged(t *testing.T) {
	n := caddytest.InProcess(t, strings.Replace(overridden, "limit 100", "ban 1h\nlimit 100", 1))
	n.Ratelimit(t, "override", "--policy", "bucket", "--key", "a", "--limit", "70").Want(t, 0, "Hint: the burst stays 5, the most units at once; burst changes it; a ban goes on; unban lifts it\n")
	for args, wrong := range map[string]string{"--policy bucket --key a --limit 70 --burst 7": "burst stays", "--policy api --key a --limit 7": "Hint", "--policy bucket --key a --block": "Hint", "--policy tried --key a --exempt": "Hint"} {
		e := n.Ratelimit(t, append([]string{"override"}, strings.Fields(args)...)...)
		e.Want(t, 0)
		assert.ErrorIf(t, strings.Contains(e.Stdout+e.Stderr, wrong), "%s: %v", args, e)
	}
	n.Ratelimit(t, "override", "--policy", "tried", "--key", "a", "--block").Want(t, 0, "Hint: the policy is a dry run for this key")
}
