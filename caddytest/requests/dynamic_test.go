package requests

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// TestLimit_byPlan maps each API key to a plan by Caddy's map.
func TestLimit_byPlan(t *testing.T) {
	t.Parallel()
	caddytest.OnBothStores(t, func(t *testing.T, option, source string) {
		n := caddytest.Start(t, caddytest.Config(option, `map {header.X-Api-Key} {plan_limit} {plan_burst} {
			gold 4 6
			silver 2 3
			broken many -1
			default "" ""
		}
		redis_ratelimit /window {header.X-Api-Key} 1 24h {
			name window
		}
		redis_ratelimit {
			name plan
			key {header.X-Api-Key}
			limit {plan_limit} 1
			window 24h
			algorithm token_bucket
			burst {plan_burst} 1
			weight {header.X-Cost} 1
		}`+caddytest.ShowDecision))
		for key, want := range map[string]int64{"gold": 6, "silver": 3, "unknown": 1, "broken": 1} {
			for i := range want {
				a := n.Get(t, "/", "X-Api-Key: "+key)
				caddytest.CheckAdmitted(t, a, source)
				caddytest.CheckQuota(t, a, want, want-1-i)
			}
			caddytest.CheckRefusal(t, n.Get(t, "/", "X-Api-Key: "+key), http.StatusTooManyRequests)
		}
		if bad := n.Metric(t, `invalid_values_total{option="limit",policy="plan"}`); bad < 2 {
			t.Errorf("%v bad values are counted", bad)
		}
		for _, option := range []string{"limit", "burst"} { // of which each has its line, whatever else is wrong
			complaints := n.Log.Lines(func(l caddytest.LogLine) bool {
				return caddytest.Ours(l) && strings.Contains(l.Message, "cannot be used") && strings.Contains(l.Text, `"option":"`+option+`"`)
			})
			if len(complaints) != 1 || strings.Contains(complaints[0].Text, "many") {
				t.Errorf("%s: the log has %v; want one line a minute, without the value", option, complaints)
			}
		}
	})
}

// TestWeight_fromClient has clients that set their own weight.
func TestWeight_fromClient(t *testing.T) {
	t.Parallel()
	n := caddytest.Start(t, caddytest.Config("", `redis_ratelimit {
		key {query.k}
		limit 10
		window 24h
		weight {header.X-Cost} 2
	}`+caddytest.ShowDecision))
	for cost, want := range map[string]int64{"": 8, "3": 7, "0": 9, "-5": 9, "1.5": 8, "x": 8, "99999999999999999999": 8} {
		a := n.Get(t, "/?k=cost"+cost, "X-Cost: "+cost)
		caddytest.CheckQuota(t, a, 10, want)
	}
	a := n.Get(t, "/?k=much", "X-Cost: 11")
	if a.Status != http.StatusTooManyRequests || a.Header.Get("Retry-After") != "" {
		t.Errorf("got %v; want it denied for ever", a)
	}
}

// TestLimit_burstFallback has an invalid value of one option, which does not affect the other.
func TestLimit_burstFallback(t *testing.T) {
	t.Parallel()
	n := caddytest.Start(t, caddytest.Config("", `redis_ratelimit {
		key {query.k}
		limit {header.L} 60
		window 1m
		algorithm token_bucket
		burst {header.B} 10
		headers ietf
	}`+caddytest.ShowDecision))
	for _, c := range []struct{ limit, burst, want string }{
		{"", "", `"default";q=10;w=10`},
		{"30", "20", `"default";q=20;w=40`},
		{"30", "0", `"default";q=10;w=20`},
		{"30", "x", `"default";q=10;w=20`},
		{"0", "20", `"default";q=0`},
		{"-5", "20", `"default";q=20;w=20`},
		{"x", "20", `"default";q=20;w=20`},
		{"30", "9223372036854775807", `"default";q=10;w=20`},
		{"9223372036854775807", "20", `"default";q=20;w=20`},
	} {
		a := n.Get(t, "/?k="+c.limit+"_"+c.burst, "L: "+c.limit, "B: "+c.burst)
		if got := a.Header.Get("RateLimit-Policy"); got != c.want {
			t.Errorf("limit %q and burst %q: %s, want %s", c.limit, c.burst, got, c.want)
		}
	}
	for _, value := range []string{"-5", "9223372036854775807"} {
		if lines := n.Log.Lines(func(l caddytest.LogLine) bool { return caddytest.Ours(l) && strings.Contains(l.Text, value) }); len(lines) > 0 {
			t.Errorf("the log shows the value: %v", lines)
		}
	}
}

// TestLimit_farFromFallback has limits of a day that alone would count in different units of time.
func TestLimit_farFromFallback(t *testing.T) {
	t.Parallel()
	caddytest.OnBothStores(t, func(t *testing.T, option, source string) {
		n := caddytest.Start(t, caddytest.Config(option, `redis_ratelimit {
			key {query.k}
			limit {header.L} 1000
			window 24h
		}`+caddytest.ShowDecision))
		for i, limit := range []int64{100, 52_124, 60_000, 10_000_000, 2} {
			a := n.Get(t, "/?k=same", "L: "+strconv.FormatInt(limit, 10))
			if limit == 2 {
				caddytest.CheckRefusal(t, a, http.StatusTooManyRequests)
				continue
			}
			caddytest.CheckAdmitted(t, a, source)
			caddytest.CheckQuota(t, a, limit, limit-1-int64(i))
		}
	})
}
