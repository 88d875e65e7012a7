package failover

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/dial"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/memory"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redis"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest/stores"
)

// beside decides a check of a unit under one policy, and dry runs under others. It returns what became of it.
func beside(t *testing.T, f *Store, enforced *limiter.Policy, tried ...*limiter.Policy) string {
	t.Helper()
	checks := []limiter.Check{{Policy: enforced, Key: limiter.EncodeKey("k")}}
	dryRuns := make([]DryRun, len(tried))
	for i, p := range tried {
		dryRuns[i].Checks = []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k")}}
	}
	source, err := f.DecideBeside(t.Context(), limiter.FailLocal, checks, dryRuns)
	text := outcome(source, err, checks)
	for i := range dryRuns {
		text += ", " + outcome(dryRuns[i].Source, dryRuns[i].Err, dryRuns[i].Checks)
	}
	return text
}

// outcome describes a decision.
func outcome(source limiter.Source, err error, checks []limiter.Check) string {
	if err != nil {
		return fmt.Sprintf("%s %v", source, err)
	}
	word := "denied"
	if limiter.Allowed(checks) {
		word = "passed"
	}
	return fmt.Sprintf("%s %s %d", source, word, checks[0].Result.Remaining)
}

// TestFailover_DecideBeside_one_batch has the dry runs of a request leave in its batch, and be charged whatever the
// request's own checks decide, and the other way round.
func TestFailover_DecideBeside_one_batch(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var mu sync.Mutex
	var batches []int
	r := stores.OpenStore(t, dial.Connection{Addresses: []string{server.Addr}, Timeout: stores.Patience}, redis.Setup{OnBatch: func(size int, _ time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		batches = append(batches, size)
	}})
	f := New(r, memory.New(), Behavior{})
	enforced, tried, other := storetest.DayPolicy(t, "enforced", limiter.FixedWindow, 2), storetest.DayPolicy(t, "tried", limiter.GCRA, 3), storetest.DayPolicy(t, "other", limiter.SlidingWindowLog, 1)
	for i, want := range []string{
		"redis passed 1, redis passed 2, redis passed 0",
		"redis passed 0, redis passed 1, redis denied 0",
		"redis denied 0, redis passed 0, redis denied 0",
		"redis denied 0, redis denied 0, redis denied 0",
	} {
		assert.Equal(t, beside(t, f, enforced, tried, other), want, "request %d", i)
	}
	mu.Lock()
	calls := 0
	for _, size := range batches {
		calls += size
	}
	// See DecideBeside.
	assert.ErrorIf(t, batches[0] != 3 || calls != 12, "the sizes of the batches are %v, want 3 first and 12 in all", batches)
	mu.Unlock()
	alone := []DryRun{{Checks: []limiter.Check{{Policy: storetest.DayPolicy(t, "alone", limiter.FixedWindow, 1), Key: limiter.EncodeKey("k")}}}}
	source, err := f.DecideBeside(t.Context(), limiter.FailClosed, nil, alone)
	assert.Equal(t, fmt.Sprint(source, err, outcome(alone[0].Source, alone[0].Err, alone[0].Checks)), "<nil>redis passed 0", "a dry run without other checks")
}

// TestFailover_DecideBeside_own_errors has one of the two fail by itself: its outcome is its own, and the other's is as
// without it.
func TestFailover_DecideBeside_own_errors(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	r, f := stores.Open(t, server), (*Store)(nil)
	f = New(r, memory.New(), Behavior{})
	good, foreign, calendar := storetest.DayPolicy(t, "good", limiter.FixedWindow, 9), storetest.DayPolicy(t, "foreign", limiter.FixedWindow, 9), storetest.NewPolicy(t, limiter.Settings{Name: "calendar", Calendar: "day", Limit: 9})
	assert.Must(t, server.Client(t).Set(t.Context(), r.RedisKey(foreign, limiter.EncodeKey("k")), "no state", 0).Err())
	assert.Equal(t, beside(t, f, good, foreign), "redis passed 8, fallback passed 8", "a foreign value in the dry run's key")
	assert.Equal(t, beside(t, f, foreign, good), "fallback passed 7, redis passed 7", "a foreign value in the request's key")

	invalid := []DryRun{{Checks: []limiter.Check{{Policy: good, Key: limiter.EncodeKey("k"), Weight: -1}}}}
	checks := []limiter.Check{{Policy: good, Key: limiter.EncodeKey("k")}}
	source, err := f.DecideBeside(t.Context(), limiter.FailLocal, checks, invalid)
	assert.ErrorIf(t, outcome(source, err, checks) != "redis passed 6" || invalid[0].Err == nil, "%v %v; the dry run's error is %v", source, err, invalid[0].Err)

	storetest.SetAhead(&r.Topology.AnyNode.Clock, 3*24*time.Hour) // so that other days are sent than Redis's, and sent once more
	assert.Equal(t, beside(t, f, good, calendar), "redis passed 5, redis passed 8", "a calendar period of another day")
	storetest.SetAhead(&r.Topology.AnyNode.Clock, -3*24*time.Hour)
	assert.Equal(t, beside(t, f, calendar, good), "redis passed 7, redis passed 4", "the request's calendar period of another day")
}

// TestFailover_DecideBeside_missing_command lacks a command of the dry run's algorithm.
func TestFailover_DecideBeside_missing_command(t *testing.T) {
	t.Parallel()
	r, _, setPermissions := stores.OpenLimited(t)
	f := New(r, memory.New(), Behavior{})
	setPermissions("-rpush")
	window, logs := storetest.DayPolicy(t, "window", limiter.FixedWindow, 9), storetest.DayPolicy(t, "log", limiter.SlidingWindowLog, 9)
	assert.Equal(t, beside(t, f, window, logs), "redis passed 8, fallback passed 8", "a missing command")
}

// TestFailover_DecideBeside_outage has each be decided here while Redis does not, also by a mode that lets the request
// through or refuses it.
func TestFailover_DecideBeside_outage(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	f := New(stores.Open(t, server), memory.New(), Behavior{})
	enforced, tried := storetest.DayPolicy(t, "enforced", limiter.FixedWindow, 2), storetest.DayPolicy(t, "tried", limiter.TokenBucket, 3)
	assert.Equal(t, beside(t, f, enforced, tried), "redis passed 1, redis passed 2", "before")
	server.Kill()
	assert.Equal(t, beside(t, f, enforced, tried), "fallback passed 0, fallback passed 1", "at the first failure")
	assert.Equal(t, beside(t, f, enforced, tried), "fallback denied 0, fallback passed 0", "while the breaker is open")
	checks := []limiter.Check{{Policy: enforced, Key: limiter.EncodeKey("k")}}
	dryRuns := []DryRun{{Checks: []limiter.Check{{Policy: tried, Key: limiter.EncodeKey("k")}}}}
	_, err := f.DecideBeside(t.Context(), limiter.FailClosed, checks, dryRuns)
	assert.ErrorIf(t, err == nil || dryRuns[0].Err != nil || dryRuns[0].Source != limiter.SourceFallback, "%v; %+v", err, dryRuns[0])
}

// TestFailover_DecideBeside_client_left has the client leave: neither is decided here.
func TestFailover_DecideBeside_client_left(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	f := New(stores.Open(t, server), memory.New(), Behavior{})
	server.Pause(t)
	defer server.Resume(t)
	ctx, leave := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer leave()
	p := storetest.DayPolicy(t, "left", limiter.FixedWindow, 2)
	checks := []limiter.Check{{Policy: p, Key: limiter.EncodeKey("a")}}
	dryRuns := []DryRun{{Checks: []limiter.Check{{Policy: p, Key: limiter.EncodeKey("b")}}}}
	_, err := f.DecideBeside(ctx, limiter.FailLocal, checks, dryRuns)
	assert.ErrorIf(t, err != ctx.Err() || dryRuns[0].Err != ctx.Err(), "%v; %+v", err, dryRuns[0]) //nolint:errorlint // as it is
}

// TestFailover_DecideBeside_remembered has the deny cache answer one of the two, which leaves the other to Redis.
func TestFailover_DecideBeside_remembered(t *testing.T) {
	t.Parallel()
	f := New(stores.Open(t, redistest.Start(t)), memory.New(), Behavior{DenyAge: MaxDenyAge})
	f.denied.MaxAge = time.Hour // no denial leaves the cache by its age
	full, roomy := storetest.DayPolicy(t, "full", limiter.FixedWindow, 1), storetest.DayPolicy(t, "roomy", limiter.FixedWindow, 9)
	assert.Equal(t, beside(t, f, full, roomy), "redis passed 0, redis passed 8", "the first")
	assert.Equal(t, beside(t, f, roomy, full), "redis passed 7, redis denied 0", "a denied dry run")
	assert.Equal(t, beside(t, f, roomy, full), "redis passed 6, deny_cache denied 0", "a dry run whose denial is remembered")
	assert.Equal(t, beside(t, f, full, roomy), "deny_cache denied 0, redis passed 5", "a request whose denial is remembered")
}

// TestFailover_DecideBeside_lease has busy keys be decided by leases, as the request or as the dry run.
func TestFailover_DecideBeside_lease(t *testing.T) {
	t.Parallel()
	f := New(stores.Open(t, redistest.Start(t)), memory.New(), Behavior{})
	leased := storetest.NewPolicy(t, limiter.Settings{Name: "leased", Algorithm: limiter.FixedWindow, Limit: 1_000_000, Window: time.Hour, Lease: time.Second})
	plain := storetest.DayPolicy(t, "plain", limiter.FixedWindow, 1_000_000)
	sources := map[limiter.Source]int64{}
	const rounds = 500
	for range rounds {
		checks := []limiter.Check{{Policy: plain, Key: limiter.EncodeKey("k")}}
		dryRuns := []DryRun{{Checks: []limiter.Check{{Policy: leased, Key: limiter.EncodeKey("k")}}}}
		assert.NoError(f.DecideBeside(t.Context(), limiter.FailClosed, checks, dryRuns))(t)
		sources[dryRuns[0].Source]++
	}
	assert.ErrorIf(t, sources[limiter.SourceLease] == 0 || sources[limiter.SourceLease]+sources[limiter.SourceRedis] != rounds, "%v", sources)
	storetest.WantRemaining(t, f, plain, "k", 1_000_000-rounds)
}

// TestFailover_DecideBeside_cluster has the checks of a request and of its dry runs lie in different slots, on different
// nodes, and in a group of their own in two.
func TestFailover_DecideBeside_cluster(t *testing.T) {
	r, _ := stores.OpenCluster(t)
	f := New(r, memory.New(), Behavior{})
	p, q := storetest.DayPolicy(t, "p", limiter.FixedWindow, 9), storetest.DayPolicy(t, "q", limiter.GCRA, 9)
	for i := range 5 {
		checks := []limiter.Check{{Policy: p, Key: limiter.EncodeKey("a")}, {Policy: q, Key: limiter.EncodeKey("b")}}
		dryRuns := []DryRun{
			{Checks: []limiter.Check{{Policy: q, Key: limiter.EncodeKey("c")}}},
			{Checks: []limiter.Check{{Policy: p, Key: limiter.EncodeKey("d"), Weight: 2}, {Policy: p, Key: limiter.EncodeKey("e")}}},
		}
		source, err := f.DecideBeside(t.Context(), limiter.FailClosed, checks, dryRuns)
		want := fmt.Sprintf("redis passed %d, redis passed %d, redis passed %d", 8-i, 8-i, 7-2*i)
		if i == 4 {
			want = "redis passed 4, redis passed 4, redis denied 1"
		}
		got := outcome(source, err, checks) + ", " + outcome(dryRuns[0].Source, dryRuns[0].Err, dryRuns[0].Checks) + ", " + outcome(dryRuns[1].Source, dryRuns[1].Err, dryRuns[1].Checks)
		assert.Equal(t, got, want, "request %d", i)
	}
}

// TestFailover_DecideBeside_running tries max_concurrent beside an enforced policy.
func TestFailover_DecideBeside_running(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]*redis.Store{"redis": stores.Open(t, redistest.Start(t)), "memory": nil} {
		f := New(r, memory.New(), Behavior{})
		running := storetest.ConcurrencyPolicy(t, 1)
		plain := storetest.DayPolicy(t, "plain", limiter.FixedWindow, 9)
		key := limiter.EncodeKey("k")
		try := func() (checks []limiter.Check, passed bool) {
			t.Helper()
			dryRuns := []DryRun{{Checks: []limiter.Check{{Policy: running, Key: key}}}}
			assert.NoError(f.DecideBeside(t.Context(), limiter.FailClosed, []limiter.Check{{Policy: plain, Key: key}}, dryRuns))(t)
			assert.Must(t, dryRuns[0].Err)
			return dryRuns[0].Checks, limiter.Allowed(dryRuns[0].Checks)
		}
		first, passed := try()
		assert.ErrorIf(t, !passed || f.Running("running") != 1, "%s: the first: %+v", name, first)
		_, passed = try()
		assert.ErrorIf(t, passed, "%s: a second at once passed", name)
		f.EndRunning(first)
		last, passed := try()
		assert.ErrorIf(t, !passed, "%s: after the first has ended: %+v", name, last)
		f.EndRunning(last)
	}
}
