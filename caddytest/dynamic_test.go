package caddytest

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// TestLimit_byPlan maps each API key to a plan by Caddy's map.
func TestLimit_byPlan(t *testing.T) {
	onBothStores(t, func(t *testing.T, option, source string) {
		n := start(t, config(option, `map {header.X-Api-Key} {plan_limit} {plan_burst} {
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
		}`+showDecision))
		for key, want := range map[string]int64{"gold": 6, "silver": 3, "unknown": 1, "broken": 1} {
			for i := range want {
				a := n.get(t, "/", "X-Api-Key: "+key)
				checkAdmitted(t, a, source)
				checkQuota(t, a, want, want-1-i)
			}
			checkRefusal(t, n.get(t, "/", "X-Api-Key: "+key), http.StatusTooManyRequests)
		}
		if bad := n.metric(t, `invalid_values_total{option="limit",policy="plan"}`); bad < 2 {
			t.Errorf("%v bad values are counted", bad)
		}
		complaints := n.log.lines(func(l logLine) bool { return ours(l) && strings.Contains(l.Message, "placeholder") })
		if len(complaints) != 1 || strings.Contains(complaints[0].text, "many") {
			t.Errorf("the log has %v; want one line a minute, without the value", complaints)
		}
	})
}

// TestWeight_fromClient has clients that set their own weight.
func TestWeight_fromClient(t *testing.T) {
	n := start(t, config("", `redis_ratelimit {
		key {query.k}
		limit 10
		window 24h
		weight {header.X-Cost} 2
	}`+showDecision))
	for cost, want := range map[string]int64{"": 8, "3": 7, "0": 9, "-5": 9, "1.5": 8, "x": 8, "99999999999999999999": 8} {
		a := n.get(t, "/?k=cost"+cost, "X-Cost: "+cost)
		checkQuota(t, a, 10, want)
	}
	a := n.get(t, "/?k=much", "X-Cost: 11")
	if a.status != http.StatusTooManyRequests || a.header.Get("Retry-After") != "" {
		t.Errorf("got %v; want it denied for ever", a)
	}
}

// TestLimit_burstFallback has an invalid value of one option, which does not affect the other.
func TestLimit_burstFallback(t *testing.T) {
	n := start(t, config("", `redis_ratelimit {
		key {query.k}
		limit {header.L} 60
		window 1m
		algorithm token_bucket
		burst {header.B} 10
		headers ietf
	}`+showDecision))
	for _, c := range []struct{ limit, burst, want string }{
		{"", "", `"default";q=10;w=10`},
		{"30", "20", `"default";q=20;w=40`},
		{"30", "0", `"default";q=10;w=20`},
		{"30", "x", `"default";q=10;w=20`},
		{"0", "20", `"default";q=20;w=20`},
		{"-5", "20", `"default";q=20;w=20`},
		{"x", "20", `"default";q=20;w=20`},
		{"30", "9223372036854775807", `"default";q=10;w=20`},
		{"9223372036854775807", "20", `"default";q=20;w=20`},
	} {
		a := n.get(t, "/?k="+c.limit+"_"+c.burst, "L: "+c.limit, "B: "+c.burst)
		if got := a.header.Get("RateLimit-Policy"); got != c.want {
			t.Errorf("limit %q and burst %q: %s, want %s", c.limit, c.burst, got, c.want)
		}
	}
	for _, value := range []string{"-5", "9223372036854775807"} {
		if lines := n.log.lines(func(l logLine) bool { return ours(l) && strings.Contains(l.text, value) }); len(lines) > 0 {
			t.Errorf("the log shows the value: %v", lines)
		}
	}
}

// TestLimit_farFromFallback has limits of a day that alone would count in different units of time.
func TestLimit_farFromFallback(t *testing.T) {
	onBothStores(t, func(t *testing.T, option, source string) {
		n := start(t, config(option, `redis_ratelimit {
			key {query.k}
			limit {header.L} 1000
			window 24h
		}`+showDecision))
		for i, limit := range []int64{100, 52_124, 60_000, 10_000_000, 2} {
			a := n.get(t, "/?k=same", "L: "+strconv.FormatInt(limit, 10))
			if limit == 2 {
				checkRefusal(t, a, http.StatusTooManyRequests)
				continue
			}
			checkAdmitted(t, a, source)
			checkQuota(t, a, limit, limit-1-int64(i))
		}
	})
}
