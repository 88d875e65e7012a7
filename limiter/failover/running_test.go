package failover

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/memory"
)

// memoryFailover returns a failover without a shared store, and what it decides by.
func memoryFailover() (*Store, *memory.Store) {
	m := memory.New()
	return New(nil, m, Options{}), m
}

func decideRunning(t testing.TB, f *Store, p *limiter.Policy, key string, weight int64) []limiter.Check {
	t.Helper()
	return storetest.Decide(t, f, limiter.Check{Policy: p, Key: limiter.EncodeKey(key), Weight: weight})
}

func TestMemory_concurrency(t *testing.T) {
	f, m := memoryFailover()
	p := storetest.ConcurrencyPolicy(t, 5)
	first := decideRunning(t, f, p, "k", 3)
	r := first[0].Result
	redistest.FatalIf(t, !r.Passes() || r.Remaining != 2 || r.ResetAfter != time.Second, "the first: %+v", r)
	denied := decideRunning(t, f, p, "k", 3)
	if r := denied[0].Result; r.RetryAfter != time.Second || r.Remaining != 2 || r.ResetAfter != time.Second {
		t.Fatalf("beyond the limit: %+v", r)
	}
	f.EndRunning(denied)
	redistest.ErrorIf(t, decideRunning(t, f, p, "k", 3)[0].Result.Passes(), "the end of a denied request returned units")
	redistest.ErrorIf(t, !decideRunning(t, f, p, "other", 5)[0].Result.Passes(), "another key has no units")
	second := decideRunning(t, f, p, "k", 2)
	n := f.Running("running")
	redistest.ErrorIf(t, n != 10 || m.Len() != 2, "%d units run, %d states; want 10, 2", n, m.Len())
	f.EndRunning(first)
	f.EndRunning(second)
	r = decideRunning(t, f, p, "k", 5)[0].Result
	redistest.ErrorIf(t, !r.Passes() || r.Remaining != 0, "after all ended: %+v", r)
	r = decideRunning(t, f, p, "k", 6)[0].Result
	redistest.ErrorIf(t, r.RetryAfter != limiter.Never, "a weight above the limit: %+v", r)
}

// TestMemory_concurrency_together decides checks of a policy that counts running requests beside others: all or
// nothing.
func TestMemory_concurrency_together(t *testing.T) {
	f, _ := memoryFailover()
	p, rate := storetest.ConcurrencyPolicy(t, 5), storetest.DayPolicy(t, "rate", limiter.FixedWindow, 2)
	all := []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k")}, {Policy: rate, Key: limiter.EncodeKey("k")}}
	for i, want := range []bool{true, true, false, false} {
		checks := slices.Clone(all)
		_, err := f.Decide(context.Background(), checks)
		redistest.FatalIf(t, err != nil || limiter.Allowed(checks) != want, "request %d: %+v, %v", i, checks, err)
	}
	n := f.Running("running")
	redistest.ErrorIf(t, n != 2, "%d run; the denied ones do not", n)
	peek := []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k"), Peek: true}}
	_, err := f.Decide(context.Background(), peek)
	redistest.ErrorIf(t, err != nil || peek[0].Result.Remaining != 3, "a peek: %+v, %v", peek, err)
	f.EndRunning(peek)
	n = f.Running("running")
	redistest.ErrorIf(t, n != 2, "%d run after the end of a peek", n)
}

// TestMemory_concurrency_survives drops what can be dropped: requests that run still do.
func TestMemory_concurrency_survives(t *testing.T) {
	clock := int64(0)
	m := memory.NewOnClock(func() int64 { return clock })
	m.Limit(1, nil)
	f := New(nil, m, Options{})
	p := storetest.ConcurrencyPolicy(t, 1)
	var running [][]limiter.Check
	for _, key := range []string{"a", "b", "c"} {
		running = append(running, decideRunning(t, f, p, key, 1))
	}
	clock += int64(48 * time.Hour / time.Microsecond)
	for i := range 100 {
		storetest.Decide(t, m, limiter.Check{Policy: storetest.DayPolicy(t, "other", limiter.FixedWindow, 1), Key: limiter.EncodeKey(string(rune('a' + i%26)))})
	}
	m.Prune()
	redistest.Equal(t, m.Reset(p, limiter.EncodeKey("a"))+m.ResetAll("running"), 0, "what a reset found")
	for i, key := range []string{"a", "b", "c"} {
		redistest.ErrorIf(t, decideRunning(t, f, p, key, 1)[0].Result.Passes(), "%s runs a second time", key)
		f.EndRunning(running[i])
		redistest.ErrorIf(t, !decideRunning(t, f, p, key, 1)[0].Result.Passes(), "%s is full after its request ended", key)
	}
}

// peak counts what runs at once, from outside.
type peak struct {
	mu        sync.Mutex
	now, most int64
}

func (p *peak) add(units int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now += units
	p.most = max(p.most, p.now)
}

func TestMemory_concurrency_parallel(t *testing.T) {
	f, m := memoryFailover()
	p := storetest.ConcurrencyPolicy(t, 7)
	gauge := new(peak)
	inParallel(16, func(_ int) {
		for range 2000 {
			checks := []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k")}}
			_, err := f.Decide(context.Background(), checks)
			redistest.ErrorIf(t, err != nil, "%v", err)
			if limiter.Allowed(checks) {
				gauge.add(1)
				gauge.add(-1)
				f.EndRunning(checks)
			}
		}
	})
	redistest.ErrorIf(t, gauge.most > 7 || f.Running("running") != 0 || m.Len() != 0,
		"up to %d ran at once, %d run now, %d states are kept", gauge.most, f.Running("running"), m.Len())
}

// TestFailover_concurrency_reload puts a Redis before requests that run already, as a reload does. They count on their
// node until they end.
func TestFailover_concurrency_reload(t *testing.T) {
	t.Parallel()
	server, m, p := redistest.Shared(t), memory.New(), storetest.ConcurrencyPolicy(t, 2)
	open := func(m *memory.Store) *Store {
		return New(newTestRedis(t, server, 10*time.Second, limiter.KeyFormat{Prefix: "t"}), m, Options{})
	}
	old, node, other := New(nil, m, Options{}), open(m), open(memory.New())
	before := [][]limiter.Check{decideRunning(t, old, p, "k", 1), decideRunning(t, old, p, "k", 1)}
	want := func(f *Store, passes bool) []limiter.Check {
		t.Helper()
		checks := decideRunning(t, f, p, "k", 1)
		redistest.ErrorIf(t, limiter.Allowed(checks) != passes, "%+v; want it to pass: %t", checks[0].Result, passes)
		return checks
	}
	want(node, false)
	old.EndRunning(before[0])
	first := want(node, true)
	want(node, false)
	second := want(other, true) // which knows nothing of the one that is left
	want(other, false)
	old.EndRunning(before[1])
	want(node, false)
	other.EndRunning(second)
	waitCounted(t, node.shared, p, 1)
	third := want(node, true)
	want(node, false)
	node.EndRunning(first)
	node.EndRunning(third)
	waitCounted(t, node.shared, p, 0)
}
