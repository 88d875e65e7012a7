package requests

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// statuses counts responses by their status.
func statuses(responses []caddytest.Response) (counts map[int]int) {
	counts = map[int]int{}
	for _, a := range responses {
		counts[a.Status]++
	}
	return counts
}

// TestWaiting_refusals has requests get no place, for each reason.
func TestWaiting_refusals(t *testing.T) {
	caddytest.OnBothStores(t, func(t *testing.T, option, _ string) {
		upstream := caddytest.NewHolder(t)
		n := caddytest.Start(t, caddytest.Config(option, `@brief path /brief
		redis_ratelimit @brief { policy places { key {query.k}; max_concurrent 3; wait 50ms } }
		@other path /other
		redis_ratelimit @other { policy places { key {query.k}; max_concurrent 3; wait 50ms }; status 503 }
		@heavy path /heavy /quick/heavy
		redis_ratelimit @heavy { policy places { key {query.k}; max_concurrent 3; weight {header.X-Weight} 2; wait 10m } }
		@rest not path /brief /other /heavy /quick/heavy
		redis_ratelimit @rest { policy places { key {query.k}; max_concurrent 3; wait 10m 2 by {header.X-User} } }
		reverse_proxy `+upstream.Addr+"\n"+`handle_errors 503 {
			respond "{http.redis_ratelimit.decision} {http.redis_ratelimit.reason} by an error route" 503
		}`))
		for range 3 {
			upstream.Begin(t, n, "/?k=a")
		}
		a := n.Get(t, "/brief?k=a")
		caddytest.CheckQuota(t, caddytest.CheckRefusal(t, a, http.StatusTooManyRequests), 3, 0)
		a.Want(t, 0, caddytest.Any, "Retry-After: 1")
		n.Get(t, "/other?k=a").Want(t, http.StatusServiceUnavailable, "denied max_concurrent by an error route", "Retry-After: 1")
		a = n.Get(t, "/heavy?k=a", "X-Weight: 4") // more than there ever is
		assert.ErrorIf(t, a.Status != http.StatusTooManyRequests || a.Header.Get("Retry-After") != "", "got %v; want it refused for ever", a)
		many := beginWaiting(t, n, 2, "/quick?k=a", "X-User: many")
		n.Get(t, "/quick?k=a", "X-User: many").Want(t, http.StatusTooManyRequests, caddytest.Any, "Retry-After: 1")
		few := make(chan []caddytest.Response, 1)
		go func() { few <- n.Crowd(t, 1, "/quick?k=a", "X-User: few") }()
		n.CheckMetric(t, `wait_seconds_count{outcome="pushed_out",policy="places"}`, 1)
		n.Get(t, "/quick?k=a", "X-User: other").Want(t, http.StatusTooManyRequests, caddytest.Any, "Retry-After: 1") // each has one
		upstream.EndOne()
		assert.Equal(t, statuses(many()), map[int]int{200: 1, 429: 1}, "the statuses of the one with two requests")
		assert.Equal(t, statuses(<-few), map[int]int{200: 1}, "the statuses of the one with one request")
		checkWaits(t, n, map[string]float64{"started": 5, "timeout": 2, "refused": 1, "full": 2, "pushed_out": 1})
		upstream.EndAll()
		checkNothingRuns(t, n, "a", 3)
	})
}

// checkWaits checks how many waits have ended in each way.
func checkWaits(t *testing.T, n *caddytest.Node, want map[string]float64) {
	t.Helper()
	for outcome, count := range want {
		n.CheckMetric(t, `wait_seconds_count{outcome="`+outcome+`",policy="places"}`, count)
	}
}

// TestWaiting_crowd has a crowd come at once to a key whose place is taken. No more wait than may.
func TestWaiting_crowd(t *testing.T) {
	caddytest.OnBothStores(t, func(t *testing.T, option, _ string) {
		upstream := caddytest.NewHolder(t)
		n := caddytest.Start(t, caddytest.Quietly(caddytest.Config(option, `redis_ratelimit {
			policy places { key {query.k}; max_concurrent 4; wait 10m 3 }
		}
		reverse_proxy `+upstream.Addr)))
		for round := range 5 {
			path := fmt.Sprint("/?k=", round)
			for range 4 {
				upstream.Begin(t, n, path)
			}
			crowd := make(chan []caddytest.Response, 1)
			go func() { crowd <- n.Crowd(t, 20, strings.Replace(path, "/", "/quick", 1)) }()
			n.CheckMetric(t, `wait_seconds_count{outcome="full",policy="places"}`, float64(17*(round+1)))
			n.CheckMetric(t, "held_requests", 3)
			for range 4 {
				upstream.EndOne()
			}
			assert.Equal(t, statuses(<-crowd), map[int]int{200: 3, 429: 17}, "the statuses of a crowd of 20")
			checkNothingRuns(t, n, fmt.Sprint(round), 4)
		}
	})
}

// TestWaiting_weights has a heavy request gather units while light ones behind it would fit.
func TestWaiting_weights(t *testing.T) {
	caddytest.OnBothStores(t, func(t *testing.T, option, _ string) {
		upstream := caddytest.NewHolder(t)
		n := caddytest.Start(t, caddytest.Config(option, `redis_ratelimit {
			policy places { key {query.k}; max_concurrent 8; weight {header.X-Weight} 1; wait 10m }
		}
		reverse_proxy `+upstream.Addr+showReason))
		for range 7 {
			upstream.Begin(t, n, "/?k=a")
		}
		heavy := beginWaiting(t, n, 1, "/quick?k=a", "X-Weight: 3")
		light := beginWaiting(t, n, 1, "/quick?k=a")
		n.Get(t, "/quick?k=a", "X-Weight: 9").Want(t, http.StatusTooManyRequests, "denied max_concurrent")
		upstream.EndOne()
		upstream.WaitRunning(t, 6)
		n.CheckMetric(t, "held_requests", 2) // the light one does not overtake
		upstream.EndOne()
		for _, responses := range [][]caddytest.Response{heavy(), light()} {
			responses[0].Want(t, http.StatusOK, "")
		}
		upstream.EndAll()
		checkNothingRuns(t, n, "a", 8)
	})
}

// TestWaiting_enforce has only the keys wait that are limited.
func TestWaiting_enforce(t *testing.T) {
	caddytest.OnBothStores(t, func(t *testing.T, option, _ string) {
		upstream := caddytest.NewHolder(t)
		n := caddytest.Start(t, caddytest.Config(option, `redis_ratelimit {
			policy places { key {query.k}; max_concurrent 1; enforce 50%; wait 50ms }
		}
		reverse_proxy `+upstream.Addr+showReason))
		counts := map[int]int{}
		for _, key := range rolloutKeys()[:12] {
			r := upstream.Begin(t, n, "/?k="+key)
			counts[n.Get(t, "/quick?k="+key).Status]++
			upstream.EndOne()
			<-r.Ended
		}
		assert.ErrorIf(t, counts[200] == 0 || counts[429] == 0 || counts[200]+counts[429] != 12, "the statuses are %v", counts)
		got := n.Metric(t, `wait_seconds_count{policy="places"}`)
		assert.Equal(t, got, float64(2*counts[429]), "the number of requests that were limited")
		n.CheckMetric(t, `decisions_total{decision="dry_run_denied",policy="places"}`, float64(counts[200]))
		n.CheckMetric(t, `running{policy="places"}`, 0)
	})
}

// TestWaiting_composition has policies of other directives around a wait: those in front are charged once, and settle by
// what the wait ends with.
func TestWaiting_composition(t *testing.T) {
	caddytest.OnBothStores(t, func(t *testing.T, option, _ string) {
		upstream := caddytest.NewHolder(t)
		n := caddytest.Start(t, caddytest.Config(option, `route {
			redis_ratelimit {
				policy rate { key {query.k}; limit 9; window 24h }
				policy successes { key {query.k}; limit 9; window 24h; count_if status 200 }
				policy refusals { key {query.k}; limit 9; window 24h; count_if status 429 }
				policy tokens { key {query.k}; limit 90; window 24h; weight 10; cost {http.reverse_proxy.header.X-Tokens-Used} }
			}
			redis_ratelimit { policy others { key {query.k}; max_concurrent 2; wait 10m } }
			@brief path /quick/brief
			redis_ratelimit @brief { policy places { key {query.k}; max_concurrent 1; wait 50ms } }
			@rest not path /quick/brief
			redis_ratelimit @rest { policy places { key {query.k}; max_concurrent 1; wait 10m } }
			reverse_proxy `+upstream.Addr+`
		}`+showReason))
		remain := func(key string, rate, successes, refusals, tokens int64) {
			t.Helper()
			n.WaitForRefund(t, "successes", key, successes)
			n.WaitForRefund(t, "refusals", key, refusals)
			n.WaitForRefund(t, "tokens", key, tokens)
			n.WaitForRefund(t, "rate", key, rate)
		}
		r := upstream.Begin(t, n, "/?k=a&tokens=7")
		n.Get(t, "/quick/brief?k=a&tokens=7").Want(t, http.StatusTooManyRequests, "denied max_concurrent")
		remain("a", 7, 8, 7, 80) // a unit each by the one that runs; the one refused has its estimate back, as behind any limit
		upstream.EndOne()
		<-r.Ended
		remain("a", 7, 8, 8, 83)
		r = upstream.Begin(t, n, "/?k=a&tokens=7")
		waits := beginWaiting(t, n, 1, "/quick?k=a&tokens=7")
		upstream.EndOne()
		<-r.Ended
		waits()[0].Want(t, http.StatusOK, "")
		remain("a", 5, 6, 8, 69)
		checkNothingRuns(t, n, "a", 1)
		n.CheckMetric(t, `running{policy="others"}`, 0)
	})
}
