package requests

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// TestLimit_byPlan maps each API key to a plan by Caddy's map.
func TestLimit_byPlan(t *testing.T) {
	caddytest.OnBothStores(t, func(t *testing.T, option, source string) {
		n := caddytest.Start(t, caddytest.Config(option, `map {header.X-Api-Key} {plan_limit} {plan_burst} { gold 4 6; silver 2 3; broken many -1; default "" "" }
		redis_ratelimit /window {header.X-Api-Key} 1 24h { name window }
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
			n.Spend(t, "/", source, want, "X-Api-Key: "+key)
		}
		bad := n.Metric(t, `invalid_values_total{option="limit",policy="plan"}`)
		assert.ErrorIf(t, bad < 2, "%v bad values are counted", bad)
		for _, option := range []string{"limit", "burst"} { // of which each has its line, whatever else is wrong
			complaints := n.Log.Lines(func(l caddytest.LogLine) bool {
				return caddytest.Ours(l) && strings.Contains(l.Message, "cannot be used") && strings.Contains(l.Text, `"option":"`+option+`"`)
			})
			assert.ErrorIf(t, len(complaints) != 1 || strings.Contains(complaints[0].Text, "many"), "%s: the log has %v; want one line a minute, without the value", option, complaints)
		}
	})
}

// TestWeight_fromClient has clients that set their own weight.
func TestWeight_fromClient(t *testing.T) {
	n := caddytest.InProcess(t, `redis_ratelimit { key {query.k}; limit 10; window 24h; weight {header.X-Cost} 2 }`+caddytest.ShowDecision)
	for cost, want := range map[string]int64{"": 8, "3": 7, "0": 9, "-5": 9, "1.5": 8, "x": 8, "99999999999999999999": 8} {
		caddytest.CheckQuota(t, n.Get(t, "/?k=cost"+cost, "X-Cost: "+cost), 10, want)
	}
	n.Get(t, "/?k=much", "X-Cost: 11").Want(t, http.StatusTooManyRequests, caddytest.Any, "Retry-After:") // denied for ever
}

// TestLimit_burstFallback has an invalid value of one option, which does not affect the other.
func TestLimit_burstFallback(t *testing.T) {
	n := caddytest.InProcess(t, `redis_ratelimit {
		key {query.k}
		limit {header.L} 60
		window 1m
		algorithm token_bucket
		burst {header.B} 10
		headers ietf
	}`+caddytest.ShowDecision)
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
		n.Get(t, "/?k="+c.limit+"_"+c.burst, "L: "+c.limit, "B: "+c.burst).Want(t, 0, caddytest.Any, "RateLimit-Policy: "+c.want)
	}
	for _, value := range []string{"-5", "9223372036854775807"} {
		checkNotLogged(t, n, value)
	}
}

// TestLimit_farFromFallback has limits of a day that alone would count in different units of time.
func TestLimit_farFromFallback(t *testing.T) {
	caddytest.OnEachStore(t, `redis_ratelimit {
		key {query.k}
		limit {header.L} 1000
		window 24h
	}`+caddytest.ShowDecision, func(t *testing.T, n *caddytest.Node, source string) {
		for i, limit := range []int64{100, 52_124, 60_000, 10_000_000, 2} {
			a := n.Get(t, "/?k=same", "L: "+strconv.FormatInt(limit, 10))
			if limit == 2 {
				caddytest.CheckRefusal(t, a, http.StatusTooManyRequests)
				continue
			}
			a.Want(t, http.StatusOK, "allowed "+source)
			caddytest.CheckQuota(t, a, limit, limit-1-int64(i))
		}
	})
}

// TestRepeated has clients that send a number several times: the fallback counts. A key that they send so is empty.
func TestRepeated(t *testing.T) {
	n := caddytest.InProcess(t, `redis_ratelimit { name numbers; key {path}; limit {query.limit} 100; window 24h; weight {cookie.cost} 50 }
	redis_ratelimit { name charged; key {path}; limit 100; window 24h; cost {header.X-Cost} 30; headers off }
	redis_ratelimit /keyed { name keyed; key {header.X-Key}-{cookie.id}; limit 1; window 24h; on_empty_key skip }`+caddytest.ShowDecision)
	caddytest.CheckQuota(t, n.Get(t, "/a?limit=60&limit=70", "Cookie: COST=1; cost=2", "X-Cost: 1"), 100, 50)
	caddytest.CheckQuota(t, n.Get(t, "/b?limit=60", "Cookie: cost=2", "X-Cost: 1", "X-Cost: 2"), 60, 58)
	n.Get(t, "/keyed", "X-Key: acme", "X-Key: fresh", "Cookie: id=1").Want(t, http.StatusBadRequest, caddytest.Any)
	n.Get(t, "/keyed", "X-Key: acme", "Cookie: id=fresh; ID=1").Want(t, http.StatusBadRequest, caddytest.Any)
	n.CheckMetric(t, `invalid_values_total{option="key",policy="keyed"}`, 2)
	checkNotLogged(t, n, "fresh")
	n.CheckMetric(t, `invalid_values_total{option="limit",policy="numbers"}`, 1)
	n.CheckMetric(t, `invalid_values_total{option="weight",policy="numbers"}`, 1)
	n.CheckMetric(t, `invalid_values_total{option="cost",policy="charged"}`, 1)
	assert.Equal(t, n.Explain(t, "/?limit=1&limit=2", "").Policies[0].Limit, 100, "the explained limit, which is the fallback,")
}
