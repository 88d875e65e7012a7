package requests

import (
	"net/http"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// reasons ends a site: every answer has the reason in a header, and the decision as its body.
const reasons = `
	header >X-Reason "<{http.redis_ratelimit.reason}>"
	respond "{http.redis_ratelimit.decision}"
	handle_errors { header X-Reason "<{http.redis_ratelimit.reason}>"; respond "{http.redis_ratelimit.decision}" }`

// change sets an override, or lifts a ban.
func change(t *testing.T, n *caddytest.Node, body string) {
	t.Helper()
	n.Ask(t, http.MethodPost, "override", body).Want(t, http.StatusOK, caddytest.Any)
}

// expect sends a request and checks its status and reason.
func expect(t *testing.T, n *caddytest.Node, method, path string, status int, reason string) caddytest.Response {
	t.Helper()
	a := n.Send(t, method, n.URL+path, "")
	if got := a.Header.Get("X-Reason"); a.Status != status || got != "<"+reason+">" {
		t.Errorf("%s %s: got %v, want %d by %q", method, path, a, status, reason)
	}
	return a
}

// TestBan_overridden changes what applies to a client that is banned, in the order of the documentation: a
// block, an exemption, the client's own limit, that of all.
func TestBan_overridden(t *testing.T) {
	caddytest.OnEachStore(t, "redis_ratelimit {\nname api\nkey {query.k}\nlimit 2\nwindow 24h\nban 1h after 2\n}\nlog"+reasons, func(t *testing.T, n *caddytest.Node, _ string) {
		for _, reason := range []string{"", "", "limit", "ban", "ban"} {
			status := http.StatusTooManyRequests
			if reason == "" {
				status = http.StatusOK
			}
			expect(t, n, http.MethodGet, "/?k=bad", status, reason)
		}
		change(t, n, `{"policy":"api","all":true,"limit":1000}`)
		expect(t, n, http.MethodGet, "/?k=bad", 429, "ban")
		change(t, n, `{"policy":"api","key":"bad","limit":500}`)
		expect(t, n, http.MethodHead, "/?k=bad", 429, "ban").Want(t, 0, caddytest.Any, "X-RateLimit-Limit: 500", "X-RateLimit-Remaining: 0", "Retry-After: *")
		if left := bannedFor(t, n, "api", "bad"); left < 3000 {
			t.Errorf("the state shows a ban of %v s", left)
		}
		change(t, n, `{"policy":"api","key":"bad","exempt":true}`)
		for range 3 {
			expect(t, n, http.MethodGet, "/?k=bad", 200, "").Want(t, 0, "exempt")
		}
		change(t, n, `{"policy":"api","key":"bad","block":true,"for":"2h"}`)
		expect(t, n, http.MethodGet, "/?k=bad", 429, "block")
		change(t, n, `{"policy":"api","key":"bad","remove":true}`)
		expect(t, n, http.MethodGet, "/?k=bad", 429, "ban")
		change(t, n, `{"policy":"api","key":"bad","unban":true}`)
		expect(t, n, http.MethodGet, "/?k=bad", 200, "").Want(t, 0, caddytest.Any, "X-RateLimit-Remaining: 997") // two units used before, and none while exempt or blocked
		change(t, n, `{"policy":"api","all":true,"remove":true}`)
		expect(t, n, http.MethodGet, "/?k=bad", 429, "limit") // the first of two: offenses are forgotten

		change(t, n, `{"policy":"api","key":"low","limit":1}`)
		expect(t, n, http.MethodGet, "/?k=low", 200, "")
		expect(t, n, http.MethodGet, "/?k=low", 429, "limit")
		expect(t, n, http.MethodGet, "/?k=low", 429, "ban")
		n.CheckMetric(t, `bans_total{policy="api"}`, 2)
		change(t, n, `{"policy":"api","key":"calm","block":true}`)
		for range 5 { // a block is no offense
			expect(t, n, http.MethodGet, "/?k=calm", 429, "block")
		}
		change(t, n, `{"policy":"api","key":"calm","remove":true}`)
		expect(t, n, http.MethodGet, "/?k=calm", 200, "")
		for _, reason := range []string{"limit", "ban", "block"} {
			redistest.ErrorIf(t, !strings.Contains(n.Log.String(), `"ratelimit_reason":"`+reason+`"`), "the access log has no denial by %s", reason)
		}
	})
}

// TestReason_several has requests that meet several policies and handlers.
func TestReason_several(t *testing.T) {
	policies := `redis_ratelimit %PATH% {
		policy %NAME%bans { key {query.k}; limit 1; window 1h; ban 2h 20h }
		policy %NAME%long {
			key {query.long}
			match { query long=* }
			limit 1
			window 365d
		}
		%MORE%
	}
	`
	site := func(path, name, more string) string {
		return strings.NewReplacer("%PATH%", path, "%NAME%", name, "%MORE%", more).Replace(policies)
	}
	dry := strings.ReplaceAll(site("/dry", "dry", ""), "limit 1", "limit 1\ndry_run")
	caddytest.OnEachStore(t, site("/several", "a", "")+site("/problem", "b", "problem_details")+dry+site("/two/*", "c", "")+site("/two/inner*", "d", "")+reasons, func(t *testing.T, n *caddytest.Node, _ string) {
		expect(t, n, http.MethodGet, "/several?k=x&long=1", 200, "")
		expect(t, n, http.MethodGet, "/several?k=x", 429, "ban").Want(t, 0, caddytest.Any, "X-RateLimit-Reset: *")
		expect(t, n, http.MethodGet, "/several?k=y&long=1", 429, "limit")
		if a := expect(t, n, http.MethodGet, "/several?k=x&long=1", 429, "limit"); len(a.Header.Get("Retry-After")) < 6 {
			t.Errorf("got %v; want the policy that waits longest", a)
		}
		if left := bannedFor(t, n, "abans", "y"); left != 0 {
			t.Errorf("a denial by another policy bans for %v s", left)
		}
		for _, block := range []string{"x", "z"} { // of a banned client, and of one that is not
			change(t, n, `{"policy":"abans","key":"`+block+`","block":true}`)
			expect(t, n, http.MethodGet, "/several?k="+block+"&long=1", 429, "block")
		}

		const prefix = `"type":"https://iana.org/assignments/http-problem-types#`
		n.Get(t, "/problem?k=x")
		for body, text := range map[string]string{"/problem?k=x": prefix + "abnormal-usage-detected", "/problem?k=blocked": prefix + "quota-exceeded"} {
			change(t, n, `{"policy":"bbans","key":"blocked","block":true}`)
			if a := n.Get(t, body); !strings.Contains(a.Body, text) || strings.Count(a.Body, "bbans") != 1 {
				t.Errorf("%s: got %v, want %s", body, a, text)
			}
			n.Send(t, http.MethodHead, n.URL+body, "").Want(t, 429, "", "Content-Type: application/problem+json")
		}

		change(t, n, `{"policy":"drybans","key":"blocked","block":true}`)
		for _, query := range []string{"k=x", "k=x", "k=x", "k=blocked"} {
			expect(t, n, http.MethodGet, "/dry?"+query, 200, "")
		}

		expect(t, n, http.MethodGet, "/two/inner?k=x&long=1", 200, "")
		expect(t, n, http.MethodGet, "/two/other?k=x", 429, "ban")          // by the outer one
		expect(t, n, http.MethodGet, "/two/inner?k=y&long=1", 429, "limit") // by either
	})
}
