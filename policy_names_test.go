package redisratelimit

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/heavyhitters"
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
	stays, end := newContext(t, "")
	defer end()
	h := loadHandler(t, stays, policyJSON("stays", "5"))
	h.counters[0].count(rule.Allowed, limiter.SourceMemory)
	h.counters[0].countInvalid("limit")
	decisions, invalid, known := series(metrics.decisions), series(metrics.invalidValues), len(h.app.memory.names.known)
	for i := range 2_000 {
		ctx, end := newContext(t, "")
		brief := loadHandler(t, ctx, policyJSON(fmt.Sprint("brief", i), "5"))
		again := loadHandler(t, ctx, policyJSON("stays", "5"))
		for _, o := range outcomes {
			brief.counters[0].count(o, limiter.SourceRedis)
		}
		brief.counters[0].countInvalid("burst")
		if again.counters[0] != h.counters[0] {
			t.Fatal("the policy that stays begins anew")
		}
		end()
		brief.counters[0].count(rule.Denied, limiter.SourceMemory) // a request that outlives it
		brief.counters[0].countInvalid("weight")
	}
	if got := series(metrics.decisions); got != decisions {
		t.Errorf("%d series of decisions, before %d", got, decisions)
	}
	if got := series(metrics.invalidValues); got != invalid {
		t.Errorf("%d series of invalid values, before %d", got, invalid)
	}
	if got := len(h.app.memory.names.known); got != known {
		t.Errorf("%d names, before %d", got, known)
	}
	if h.counters[0].dropped || h.app.memory.names.known["stays"] != h.counters[0] {
		t.Error("the policy that stays counts no more")
	}
}

// TestPolicyNames_with_counts removes a policy whose client has used it up, and adds it again: its client is
// still denied, and its series go on. They are dropped when both its counts and its denials are over.
func TestPolicyNames_with_counts(t *testing.T) {
	now, living := time.Now(), map[string]bool{}
	names := newPolicyNames(func() map[string]bool { return living }, func() time.Time { return now })
	defer names.end()
	claimed := func() registeredPolicies { return registeredPolicies{"p": {counters: names.use("p")}} }
	first := claimed()
	living["p"] = true
	first["p"].counters.top.Add("k")
	names.release(first)
	second := claimed()
	if first["p"].counters != second["p"].counters || second["p"].counters.dropped {
		t.Error("a name that came back with counts begins anew")
	}
	names.release(second)
	clear(living)
	names.prune()
	if names.known["p"] == nil || names.look == nil {
		t.Error("the name was dropped with its denials, or is not looked after")
	}
	now = now.Add(2 * heavyhitters.Period)
	names.prune()
	if names.known["p"] != nil || names.look != nil {
		t.Error("the name is kept after its counts have ended")
	}
	third := claimed()
	if third["p"].counters == second["p"].counters {
		t.Error("a name that came back without counts goes on")
	}
	names.release(third)
}

// TestPolicyNames_keep_counts has a handler deny a client, be removed, and come back.
func TestPolicyNames_keep_counts(t *testing.T) {
	stays, end := newContext(t, "")
	defer end()
	loadHandler(t, stays, policyJSON("stays", "5"))
	for _, want := range []int{http.StatusOK, http.StatusTooManyRequests} {
		ctx, end := newContext(t, "")
		h := loadHandler(t, ctx, `{"policies":[{"name":"returns","key":"same","limit":1,"window":"24h"}]}`)
		if response := fetch(t, serve(t, hello, h).URL); response.StatusCode != want {
			t.Errorf("got %v, want %d", response.Status, want)
		}
		end()
	}
}
