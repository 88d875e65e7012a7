package failover

import (
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/memory"
)

// TestFailover_permission_of_one_policy has a script charge the first of two policies and fail at the second, for which
// its user lacks a permission. The request is decided here, and repaid to neither: Redis may have charged both.
func TestFailover_permission_of_one_policy(t *testing.T) {
	t.Parallel()
	r, reported, setPermissions := openLimited(t)
	first, second := storetest.DayPolicy(t, "first", limiter.FixedWindow, 100), storetest.DayPolicy(t, "second", limiter.SlidingWindowLog, 100)
	f := New(r, memory.New(), Options{})
	setPermissions("-rpush")
	checks := []limiter.Check{{Policy: first, Key: limiter.EncodeKey("k")}, {Policy: second, Key: limiter.EncodeKey("k")}}
	if source, err := f.Decide(t.Context(), checks); source != limiter.SourceFallback || err != nil || !limiter.Allowed(checks) {
		t.Fatalf("decided by %s: %+v %v", source, checks, err)
	}
	redistest.ErrorIf(t, !f.ledger.isEmpty(), "something is owed for a request that Redis may have charged")
	setPermissions("+rpush")
	waitReported(t, reported, "outage:auth recovery")
	for p, left := range map[*limiter.Policy]int64{first: 99, second: 100} {
		got := storetest.Decide(t, r, limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Peek: true})[0].Result.Remaining
		redistest.ErrorIf(t, got != left, "%s: %d remain, want %d", p.Name(), got, left)
	}
}
