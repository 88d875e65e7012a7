package requests

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// placesPolicy is the policy of two places for a key that all handlers of runningSite use.
const placesPolicy = "key {query.k}\nmax_concurrent 2\nnode_timeout 20s\n"

// runningSite is a site with a handler for each form of a request, and an upstream behind it.
func runningSite(upstream *caddytest.Holder) string {
	site, rest := "route {\n", "not header X-Form *\n"
	for form, options := range map[string]string{
		"problem": "answer problem",
		"jitter":  "retry_jitter 1h",
	} {
		site += "@" + form + " header X-Form " + form + "\nredis_ratelimit @" + form + " {\npolicy places {\n" + placesPolicy + "}\n" + options + "\n}\n"
	}
	for form, options := range map[string]string{"dry": "dry_run", "later": "enforce 0%", "heavy": "weight 2", "minor": "reserve 1"} {
		site += "@" + form + " header X-Form " + form + "\nredis_ratelimit @" + form + " {\npolicy places {\n" + placesPolicy + options + "\n}\n}\n"
	}
	site += "@rest " + rest + "redis_ratelimit @rest {\npolicy places {\n" + placesPolicy + "}\nheaders x_ratelimit ietf\nexempt 127.0.0.9\nusage /usage\n}\n"
	return site + "@quick path /quick\nrespond @quick \"{http.redis_ratelimit.decision} {http.redis_ratelimit.remaining} {http.redis_ratelimit.dry_run}\"\nreverse_proxy " + upstream.Addr + "\n}" + showReason
}

// TestRunning_answers shows what requests get beside those that run.
func TestRunning_answers(t *testing.T) {
	caddytest.OnBothStores(t, func(t *testing.T, option, source string) {
		upstream := caddytest.NewHolder(t)
		n := caddytest.Start(t, caddytest.Config(option, runningSite(upstream)))
		upstream.Begin(t, n, "/?k=a")
		a := n.Get(t, "/quick?k=a")
		caddytest.CheckQuota(t, a, 2, 0)
		a.Want(t, 0, caddytest.Any, `RateLimit-Policy: "places";q=2;qu="concurrent-requests"`, `RateLimit: "places";r=0`)
		a = n.Get(t, "/usage?k=a")
		assert.ErrorIf(t, !strings.HasPrefix(a.Body, `{"policies":[{"name":"places","limit":2,"remaining":1,"reset_after":`) || strings.Contains(a.Body, "window"), "usage: got %v", a)
		for form, want := range map[string]string{
			"minor": "denied reserve", "heavy": "denied max_concurrent", "dry": "allowed  ", "later": "allowed  ",
		} {
			n.Get(t, "/quick?k=a", "X-Form: "+form).Want(t, 0, want)
		}
		upstream.Begin(t, n, "/?k=a")
		checkDenials(t, n, source)
		checkCommands(t, n, source)
		upstream.EndAll()
		n.CheckMetric(t, `running{policy="places"}`, 0)
		n.CheckMetric(t, `decisions_total{decision="dry_run_denied",policy="places",source="memory"}`, 2) // this node runs all there is
	})
}

// checkDenials sends requests of a key whose places are taken.
func checkDenials(t *testing.T, n *caddytest.Node, source string) {
	t.Helper()
	a := n.Get(t, "/quick?k=a")
	caddytest.CheckRefusal(t, a, http.StatusTooManyRequests)
	a.Want(t, 0, caddytest.Any, `RateLimit-Policy: "places";q=2;qu="concurrent-requests"`, `RateLimit: "places";r=0`)
	a.Want(t, 0, "denied max_concurrent", "Retry-After: 1")
	n.Get(t, "/quick?k=a", "X-Form: problem").
		Want(t, http.StatusTooManyRequests, `*#quota-exceeded"*"violated-policies":["places"]*`)
	assert.Retry(t, "a wait with jitter", func() (again bool, seen any) {
		a := n.Get(t, "/quick?k=a", "X-Form: jitter")
		return len(a.Header.Get("Retry-After")) < 2, a
	})
	n.Get(t, "/quick?k=a", "Content-Type: application/grpc").Want(t, http.StatusOK, caddytest.Any, "Grpc-Status: 8",
		"Grpc-Message: too many calls are running: policy places, retry in 1 s", "Grpc-Retry-Pushback-Ms: 1000")
	for _, form := range []string{"dry", "later"} {
		n.Get(t, "/quick?k=a", "X-Form: "+form).Want(t, 0, "allowed  places", caddytest.NoQuota)
	}
	e := n.Explain(t, "/quick?k=a", "")
	assert.ErrorIf(t, e.Decision != "denied" || e.Policies[len(e.Policies)-1].Reason != "max_concurrent" || e.Policies[len(e.Policies)-1].Source != source, "explained as %+v", e)
	n.Get(t, "/usage?k=a").Want(t, 0, `*"remaining":0,"reset_after":*`)
}

// checkCommands reads the policy with both its places taken, and overrides it.
func checkCommands(t *testing.T, n *caddytest.Node, source string) {
	t.Helper()
	n.Ratelimit(t, "policies").Want(t, 0, "\nplaces: 2 units at once for each query parameter k\n", "  node_timeout  20s\n", "  running here  2\n", ", weight 2\n")
	a := n.Ask(t, http.MethodGet, "policies", "")
	assert.ErrorIf(t, !strings.Contains(a.Body, `"max_concurrent":2,"node_timeout":20,"handlers":[`) || !strings.Contains(a.Body, `"running":2,`) || strings.Contains(a.Body, `"window"`) || strings.Contains(a.Body, `"algorithm"`) || strings.Contains(a.Body, `"limit"`), "got %v", a)
	n.Ratelimit(t, "state", "--policy", "places", "--key", "a").Want(t, 0, "remaining    0")
	if source == "redis" {
		n.Ratelimit(t, "state", "--policy", "places", "--key", "a").Want(t, 0, "running=2", "RUNNING\n", "2  this node\n")
	}
	n.Ratelimit(t, "explain", "--url", n.URL+"/quick?k=a").Want(t, 4, "too many running")
	n.Ratelimit(t, "top").Want(t, 0, "places")
	for _, override := range []struct{ change, want string }{
		{`"limit":3`, "allowed 0 "}, {`"limit":1`, "denied max_concurrent"}, {`"exempt":true`, "exempt  "}, {`"block":true`, "denied block"}, {`"remove":true`, "denied max_concurrent"},
	} {
		n.Override(t, http.StatusOK, `{"policy":"places","key":"a",`+override.change+`}`)
		n.Await(t, "/quick?k=a", 0, override.want)
	}
}

// TestRunning_notify emits an event when a take crosses a mark, once in a node timeout.
func TestRunning_notify(t *testing.T) {
	caddytest.OnBothStores(t, func(t *testing.T, option, source string) {
		upstream := caddytest.NewHolder(t)
		n := caddytest.Start(t, caddytest.Config(option, "redis_ratelimit {\npolicy watched {\nkey {query.k}\nmax_concurrent 2\nnode_timeout 10m\nnotify 50% 100%\n}\n}\nreverse_proxy "+upstream.Addr))
		upstream.Begin(t, n, "/?k=a")
		e := waitForThresholds(t, n, 50)[0]
		assert.ErrorIf(t, e.Remaining != 1 || e.Limit != 2 || e.Source != source, "got %+v", e)
		n.GetTimes(t, 5, "/quick?k=a")
		waitForThresholds(t, n, 50, 100)
	})
}

// TestRunning_placeholder has requests bring along how many may run: numbers, unlimited, 0, nothing, and what is
// none of these.
func TestRunning_placeholder(t *testing.T) {
	caddytest.OnBothStores(t, func(t *testing.T, option, _ string) {
		const one = `redis_ratelimit @%[1]s {
			policy %[1]s { key {query.k}; max_concurrent {header.X-Places} %[2]s }
		}
		`
		upstream := caddytest.NewHolder(t)
		n := caddytest.Start(t, caddytest.Config(option, "@bounded not header X-Plan free\n@free header X-Plan free\n"+fmt.Sprintf(one, "bounded", "1")+fmt.Sprintf(one, "free", "unlimited")+
			"@quick path /quick\nrespond @quick ok\nreverse_proxy "+upstream.Addr+showReason))
		upstream.Begin(t, n, "/?k=a")
		for value, want := range map[string]string{
			"": "denied max_concurrent", "1": "denied max_concurrent", "2": "ok", "unlimited": "ok", "0": "denied max_concurrent",
			"-1": "denied max_concurrent", "many": "denied max_concurrent", "1000000001": "denied max_concurrent",
		} {
			n.Get(t, "/quick?k=a", "X-Places: "+value).Want(t, 0, want)
		}
		n.CheckMetric(t, `invalid_values_total{option="max_concurrent",policy="bounded"}`, 3)
		for value, want := range map[string]string{"": "ok", "many": "ok", "1": "ok", "0": "denied max_concurrent"} {
			n.Get(t, "/quick?k=a", "X-Plan: free", "X-Places: "+value).Want(t, 0, want)
		}
		n.Ratelimit(t, "policies").Want(t, 0, "bounded: {http.request.header.X-Places} requests at once for each query\n  parameter k, else 1\n", "free: {http.request.header.X-Places} requests at once for each query parameter\n  k, else unlimited\n")
		n.Ask(t, http.MethodGet, "policies", "").Want(t, 0, `*"unlimited":true,"max_concurrent_from":"{http.request.header.X-Places}","node_timeout":15*`)
	})
}

// TestRunning_twice passes two handlers with the policy: each takes a place, as with any policy.
func TestRunning_twice(t *testing.T) {
	caddytest.OnBothStores(t, func(t *testing.T, option, _ string) {
		upstream := caddytest.NewHolder(t)
		const one = "redis_ratelimit {\npolicy places {\nkey {query.k}\nmax_concurrent 3\n}\n}\n"
		n := caddytest.Start(t, caddytest.Config(option, "route {\n"+one+one+"reverse_proxy "+upstream.Addr+"\n}"+showReason))
		r := upstream.Begin(t, n, "/?k=a")
		n.CheckMetric(t, `running{policy="places"}`, 2)
		n.Get(t, "/quick?k=a").Want(t, 0, "denied max_concurrent")
		n.CheckMetric(t, `running{policy="places"}`, 2)
		upstream.EndOne()
		<-r.Ended
		n.CheckMetric(t, `running{policy="places"}`, 0)
	})
}
