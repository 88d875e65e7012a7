package failover

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/memory"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest/stores"
)

// TestAllow_and_Peek take one unit of a policy by default, and none, on every kind of store.
func TestAllow_and_Peek(t *testing.T) {
	server := redistest.Shared(t)
	for name, store := range map[string]limiter.Store{
		"memory": memory.New(), "redis": stores.Open(t, server),
		"failover": New(stores.Open(t, server), memory.New(), Behavior{}),
	} {
		p := storetest.NewPolicy(t, limiter.Settings{Name: "allow-" + name, Limit: 2, Window: storetest.LongWindow(0)})
		var got []bool
		for range 3 {
			result, err := storetest.Allow(t.Context(), store, p, "k")
			assert.FatalIf(t, err != nil, "%+v %+v", name, err)
			got = append(got, result.Passes())
		}
		assert.ErrorIf(t, !got[0] || !got[1] || got[2], "%s: passes are %v; want two of three", name, got)
		left, err := storetest.Peek(t.Context(), store, p, "k")
		assert.ErrorIf(t, err != nil || left.Remaining != 0 || !left.Passes(), "%s: after all: %+v, %v", name, left, err)
		for range 2 {
			storetest.WantRemaining(t, store, p, "other", 2)
		}
	}
}

// TestStore_Decide_invalid sends checks that no store can decide: no store charges any of them.
func TestStore_Decide_invalid(t *testing.T) {
	p := storetest.NewPolicy(t, limiter.Settings{Name: "p", Limit: 2, Window: time.Hour})
	twin := storetest.NewPolicy(t, limiter.Settings{Name: "p", Limit: 9, Window: time.Hour})
	good := limiter.Check{Policy: p, Key: limiter.EncodeKey("k")}
	shared := stores.Open(t, redistest.Shared(t))
	for name, store := range map[string]limiter.Store{
		"memory": memory.New(), "redis": shared,
		"failover": New(shared, memory.New(), Behavior{DenyAge: time.Second}),
		"local":    New(nil, memory.New(), Behavior{}),
	} {
		many := []limiter.Check{good}
		for i := range 20 {
			many = append(many, limiter.Check{Policy: p, Key: limiter.EncodeKey(fmt.Sprint("many-", i))})
		}
		for problem, checks := range map[string][]limiter.Check{
			"numbers 0 and 21 take":    append(many, good),
			"there is none":            {},
			"a request that is refuse": {{Policy: p.None(), Key: limiter.EncodeKey("k")}},
			"number 1 has no Policy":   {good, {Key: limiter.EncodeKey("k")}},
			"number 1 has Weight -1":   {good, {Policy: p, Key: limiter.EncodeKey("l"), Weight: -1}},
			"numbers 0 and 1 take":     {good, good},
			"numbers 1 and 2 take":     {{Policy: p, Key: limiter.EncodeKey("l")}, good, {Policy: twin, Key: limiter.EncodeKey("k")}},
			"number 0 has Weight -9":   {{Policy: p, Weight: -9, Peek: true}},
			"Reserve -1; use a number": {{Policy: p, Reserve: -1}},
			"numbers 0 and 1 take fro": {{Policy: p}, {Policy: p, Peek: true}},
		} {
			_, err := store.Decide(context.Background(), checks)
			assert.ErrorIf(t, !errors.Is(err, limiter.ErrInvalidCheck) || errors.Is(err, limiter.ErrUndecided) || !strings.Contains(err.Error(), problem),
				"%s: got %v; want an error about %q", name, err, problem)
		}
		storetest.WantRemaining(t, store, p, "k", 2)
	}
}

// TestFailover_wrongSource refunds and charges by the source of another store: a store without Redis uses its
// own states.
func TestFailover_wrongSource(t *testing.T) {
	t.Parallel()
	p := storetest.NewPolicy(t, limiter.Settings{Name: "p", Algorithm: limiter.FixedWindow, Limit: 10, Window: storetest.LongWindow(0)})
	for _, source := range []limiter.Source{limiter.SourceRedis, limiter.SourceFallback, limiter.SourceMemory, ""} {
		store := New(nil, memory.New(), Behavior{LocalFraction: 0.5})
		checks := storetest.Decide(t, store, limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Weight: 3, Refundable: true})
		refundAll(store, checks, source)
		chargeAll(store, []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k"), Weight: 2}}, source)
		storetest.WantRemaining(t, store, p, "k", 8)
	}
}

// TestFailover_Peek peeks often, on Redis and in process, at states of every algorithm.
func TestFailover_Peek(t *testing.T) {
	t.Parallel()
	for name, f := range bothStores(t, Behavior{}) {
		for _, algorithm := range limiter.Algorithms() {
			t.Run(name+"/"+algorithm, func(t *testing.T) {
				p := storetest.DayPolicy(t, "peek-"+name+"-"+algorithm, algorithm, 3)
				peek := func(weight int64) limiter.Result {
					check := limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Weight: weight, Peek: weight == 0}
					source, err := f.Peek(context.Background(), &check)
					assert.FatalIf(t, err != nil || string(source) != name, "%+v %+v", source, err)
					return check.Result
				}
				got := peek(1)
				assert.ErrorIf(t, got.Remaining != 3 || got.ResetAfter != 0 || !got.Passes(), "a new quota: %+v", got)
				for remaining := int64(2); remaining >= 0; remaining-- {
					storetest.Decide(t, f, limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Weight: 1})
					for range 5 {
						if got := peek(1); got.Remaining != remaining || got.Passes() != (remaining > 0) || got.ResetAfter <= 0 {
							t.Errorf("%d should remain: %+v", remaining, got)
						}
					}
				}
				got = peek(4)
				assert.ErrorIf(t, got.RetryAfter != limiter.Never, "more than the capacity: %+v", got)
			})
		}
	}
}

// TestPeek_reserve peeks by a check that was decided before: its unused units are those of now.
func TestPeek_reserve(t *testing.T) {
	t.Parallel()
	for name, f := range bothStores(t, Behavior{}) {
		p := storetest.NewPolicy(t, limiter.Settings{Name: "peeked", Algorithm: limiter.FixedWindow, Limit: 10, Window: storetest.LongWindow(0)})
		checks := []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k"), Reserve: 4}}
		source, err := f.Decide(t.Context(), checks)
		assert.FatalIf(t, err != nil || checks[0].Unused() != 9,
			"%s: %d unused after one of 10, %v", name, checks[0].Unused(), err)
		cost := checks[0]
		cost.Weight = 7
		chargeAll(f, []limiter.Check{cost}, source)
		for way, peek := range map[string]func(*limiter.Check) error{
			"Peek":   func(c *limiter.Check) error { _, err := f.Peek(t.Context(), c); return err },
			"PeekIn": func(c *limiter.Check) error { _, err := f.PeekIn(t.Context(), limiter.FailClosed, c); return err },
		} {
			looked := checks[0]
			looked.Peek = true
			if err := peek(&looked); err != nil || looked.Result.Remaining != 0 || looked.Unused() != 2 {
				t.Errorf("%s, %s: %d remain and %d are unused after 8 of 10, %v; want 0 and 2", name, way, looked.Result.Remaining, looked.Unused(), err)
			}
		}
	}
}

// TestFailover_PeekIn reads a quota while Redis answers and after its end, in every mode. No peek waits once
// the breaker is open.
func TestFailover_PeekIn(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	f := New(stores.Open(t, server), memory.New(), Behavior{LocalFraction: 0.5})
	p := storetest.DayPolicy(t, "peek-in", limiter.TokenBucket, 10)
	storetest.Decide(t, f, limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Weight: 4})
	peek := func(mode limiter.FailMode) (limiter.Source, int64, error) {
		check := limiter.Check{Policy: p, Key: limiter.EncodeKey("k")}
		source, err := f.PeekIn(context.Background(), mode, &check)
		return source, check.Result.Remaining, err
	}
	for _, mode := range limiter.FailModes() {
		if source, remaining, err := peek(mode); source != limiter.SourceRedis || remaining != 6 || err != nil {
			t.Errorf("%s: got %d from %s, %v", mode, remaining, source, err)
		}
	}
	server.Kill()
	stores.WaitFailing(t, f, true, func() {
		_, _, err := peek(limiter.FailClosed)
		assert.FatalIf(t, !errors.Is(err, limiter.ErrUndecided), "got %v from a dead Redis", err)
	})
	for _, mode := range []limiter.FailMode{limiter.FailOpen, limiter.FailClosed} {
		_, _, err := peek(mode)
		assert.ErrorIf(t, !errors.Is(err, limiter.ErrOutage), "%s: got %v, want the outage at once", mode, err)
	}
	if source, remaining, err := peek(limiter.FailLocal); source != limiter.SourceFallback || remaining > 5 || err != nil {
		t.Errorf("got %d from %s, %v; want at most the half", remaining, source, err)
	}
	check := limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Weight: 1}
	if source, err := f.Peek(t.Context(), &check); source != limiter.SourceFallback || check.Result.Remaining > 5 || !errors.Is(err, limiter.ErrUndecided) {
		t.Errorf("Peek: got %+v from %s, %v; want the quota here and the outage's error", check.Result, source, err)
	}
	gone, leave := context.WithCancel(context.Background())
	leave()
	alone := New(nil, memory.New(), Behavior{})
	if source, err := alone.PeekIn(gone, limiter.FailClosed, &check); source != limiter.SourceMemory || err != nil || check.Result.Remaining != 10 {
		t.Errorf("in process: got %+v from %s, %v", check.Result, source, err)
	}
	for source, want := range map[limiter.Source]int64{limiter.SourceRedis: 10, limiter.SourceMemory: 10, limiter.SourceFallback: 5} {
		assert.Equal(t, f.CapacityIn(p, source), want, "the capacity of %s", source)
	}
	server.Run(t)
	assert.WaitFor(t, "a peek succeeds as soon as Redis is back, even while the breaker is open", func() error {
		_, err := f.Peek(t.Context(), &check)
		return err
	})
}

// TestFailover_permission_of_one_policy has a script fail at a command for which its user lacks a permission: after it
// has charged the first of two policies, or between the two writes of a log. The request is decided here, and repaid to
// no policy: Redis may have charged each of them.
func TestFailover_permission_of_one_policy(t *testing.T) {
	t.Parallel()
	window, log := storetest.DayPolicy(t, "window", limiter.FixedWindow, 100), storetest.DayPolicy(t, "log", limiter.SlidingWindowLog, 100)
	for right, left := range map[string]map[*limiter.Policy]int64{"rpush": {window: 99, log: 100}, "pexpire": {log: 99}} {
		t.Run(right, func(t *testing.T) {
			t.Parallel()
			r, reported, setPermissions := stores.OpenLimited(t)
			f := New(r, memory.New(), Behavior{})
			setPermissions("-" + right)
			var checks []limiter.Check
			for _, p := range []*limiter.Policy{window, log} {
				if _, asked := left[p]; asked {
					checks = append(checks, limiter.Check{Policy: p, Key: limiter.EncodeKey("k")})
				}
			}
			if source, err := f.Decide(t.Context(), checks); source != limiter.SourceFallback || err != nil || !limiter.Allowed(checks) {
				t.Fatalf("decided by %s: %+v %v", source, checks, err)
			}
			assert.ErrorIf(t, !f.ledger.isEmpty(), "something is owed for a request that Redis may have charged")
			setPermissions("+" + right)
			stores.WaitReported(t, reported, "outage:auth recovery")
			for p, want := range left {
				storetest.WantRemaining(t, r, p, "k", want)
			}
		})
	}
}

// TestFailover_no_name asks for policies by what is no name, and would be a pattern in Redis.
func TestFailover_no_name(t *testing.T) {
	t.Parallel()
	for name, f := range bothStores(t, Behavior{DenyAge: time.Second}) {
		p := storetest.DayPolicy(t, "named", limiter.FixedWindow, 3)
		storetest.Decide(t, f, limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Weight: 1})
		found, err := f.ResetAll(t.Context(), "n*")
		assert.ErrorIf(t, err != nil || found != (ResetCount{}), "%s: a reset found %+v, %v", name, found, err)
		list, complete, err := f.Banned(t.Context(), "n*")
		assert.ErrorIf(t, err != nil || len(list) > 0 || !complete, "%s: banned are %v, %t, %v", name, list, complete, err)
		f.Prune()
		storetest.WantRemaining(t, f, p, "k", 2)
	}
}
