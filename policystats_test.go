package redisratelimit

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/policystats"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

// series counts those of a metric.
func series(c prometheus.Collector) (n int) {
	all := make(chan prometheus.Metric)
	go func() {
		c.Collect(all)
		close(all)
	}()
	for range all {
		n++
	}
	return n
}

// TestPolicyNames_of_configurations_that_came_and_went loads configurations that each name another policy, beside
// one that goes on: what is kept stays as much as one configuration needs.
func TestPolicyNames_of_configurations_that_came_and_went(t *testing.T) {
	h := newHandler(t, policyJSON("stays", "5"))
	h.limiter.Counters[0].Count(rule.Allowed, limiter.SourceMemory)
	h.limiter.Counters[0].CountInvalid("limit")
	decisions, invalid, known := series(policystats.Decisions), series(policystats.InvalidValues), h.app.opened.Memory.Names.Len()
	for i := range redistest.Rounds(100, 2_000) {
		ctx, end := newContext(t, "")
		brief := loadHandler(t, ctx, policyJSON(fmt.Sprint("brief", i), "5"))
		again := loadHandler(t, ctx, policyJSON("stays", "5"))
		for _, o := range []rule.Outcome{rule.Allowed, rule.Denied, rule.FailedOpen, rule.FailedClosed} {
			brief.limiter.Counters[0].Count(o, limiter.SourceRedis)
		}
		brief.limiter.Counters[0].CountInvalid("burst")
		redistest.FatalIf(t, again.limiter.Counters[0] != h.limiter.Counters[0], "the policy that stays begins anew")
		end()
		brief.limiter.Counters[0].Count(rule.Denied, limiter.SourceMemory) // a request that outlives it
		brief.limiter.Counters[0].CountInvalid("weight")
	}
	if got := series(policystats.Decisions); got != decisions {
		t.Errorf("%d series of decisions, before %d", got, decisions)
	}
	if got := series(policystats.InvalidValues); got != invalid {
		t.Errorf("%d series of invalid values, before %d", got, invalid)
	}
	if got := h.app.opened.Memory.Names.Len(); got != known {
		t.Errorf("%d names, before %d", got, known)
	}
}

// TestPolicyNames_keep_counts has a handler deny a client, be removed, and come back.
func TestPolicyNames_keep_counts(t *testing.T) {
	newHandler(t, policyJSON("stays", "5"))
	for _, want := range []int{http.StatusOK, http.StatusTooManyRequests} {
		ctx, end := newContext(t, "")
		h := loadHandler(t, ctx, `{"policies":[{"name":"returns","key":"same","limit":1,"window":"24h"}]}`)
		response := fetch(t, serve(t, hello, h).URL)
		redistest.ErrorIf(t, response.StatusCode != want, "got %v, want %d", response.Status, want)
		end()
	}
}
