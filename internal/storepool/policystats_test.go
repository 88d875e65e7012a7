package storepool

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// TestNames_with_counts removes a policy whose client has used it up, and adds it again: its client is
// still denied, and its series go on. They are dropped when both its counts and its denials are over.
func TestNames_with_counts(t *testing.T) {
	now, living := time.Now(), map[string]bool{}
	names := newNameTable(func() map[string]bool { return living }, func() time.Time { return now })
	defer names.end()
	first := names.Use("p")
	living["p"] = true
	first.Top.Add("k", now)
	names.Release([]*PolicyStats{first})
	second := names.Use("p")
	assert.ErrorIf(t, first != second || second.dropped, "a name that came back with counts begins anew")
	names.Release([]*PolicyStats{second})
	clear(living)
	names.prune()
	assert.ErrorIf(t, names.known["p"] == nil || !names.look.IsSet(), "the name was dropped with its denials, or is not looked after")
	now = now.Add(2 * sketchPeriod)
	names.prune()
	assert.ErrorIf(t, names.known["p"] != nil || names.look.IsSet(), "the name is kept after its counts have ended")
	third := names.Use("p")
	assert.ErrorIf(t, third == second, "a name that came back without counts goes on")
	names.Release([]*PolicyStats{third})
}

// TestPolicy_CountInvalid logs the first of each option, whatever else was logged.
func TestPolicy_CountInvalid(t *testing.T) {
	names := newNameTable(func() map[string]bool { return nil }, time.Now)
	defer names.end()
	first, second := names.Use("first"), names.Use("second")
	for _, p := range []*PolicyStats{first, second} {
		for _, option := range []string{"limit", "cost"} {
			assert.ErrorIf(t, !p.CountInvalid(option, "value"), "the first invalid %s of %s is not logged", option, p.name)
			assert.ErrorIf(t, p.CountInvalid(option, "value"), "the second invalid %s of %s is logged at once", option, p.name)
		}
	}
}

func countSeries(c prometheus.Collector) int {
	collected := make(chan prometheus.Metric, 10)
	c.Collect(collected)
	return len(collected)
}

// TestNames_CountLeased counts what ends later than a configuration, and nothing for a name that was dropped.
func TestNames_CountLeased(t *testing.T) {
	names := newNameTable(func() map[string]bool { return nil }, time.Now)
	defer names.end()
	used := names.Use("late")
	names.countLeased("late", limiter.LeaseSpent, 2)
	names.countOutage("late", 3)
	if leased, settled := countSeries(LeasedUnits), countSeries(SettledUnits); leased != 1 || settled != 1 {
		t.Errorf("%d and %d series, want one each", leased, settled)
	}
	names.Release([]*PolicyStats{used})
	names.countLeased("late", limiter.LeaseReturned, 2)
	names.countOutage("late", 3)
	if leased, settled := countSeries(LeasedUnits), countSeries(SettledUnits); leased+settled != 0 {
		t.Errorf("%d and %d series of a name that was dropped", leased, settled)
	}
}

// TestNames_prune_alone lets no configuration use a name between the look at its counts and its end.
func TestNames_prune_alone(t *testing.T) {
	var names *nameTable
	names = newNameTable(func() map[string]bool {
		if names.mu.TryLock() {
			names.mu.Unlock()
			t.Error("a name could be used meanwhile")
		}
		return nil
	}, time.Now)
	names.Release([]*PolicyStats{names.Use("p")})
	assert.ErrorIf(t, len(names.known) != 0, "the name is kept")
}
