package failover

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/decision"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/running"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/memory"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/redis"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/redis/dial"
)

// counted returns how many units Redis counts for a key of the policy, as another process sees it.
func counted(t testing.TB, r *redis.Store, p *limiter.Policy, key string) int64 {
	t.Helper()
	check := limiter.Check{Policy: p, Key: limiter.EncodeKey(key), Peek: true}
	if err := r.Peek(context.Background(), &check); err != nil {
		return -1
	}
	return p.Capacity() - check.Result.Remaining
}

func waitCounted(t testing.TB, r *redis.Store, p *limiter.Policy, want int64) {
	t.Helper()
	redistest.Retry(t, fmt.Sprintf("Redis counts %d units", want), func() (again bool, seen any) {
		n := counted(t, r, p, "k")
		return n != want, fmt.Sprintf("it counts %d", n)
	})
}

// TestFailover_concurrency_outage: without Redis a process decides by what it runs itself, and tells
// Redis of it afterwards.
func TestFailover_concurrency_outage(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	f := New(openRedis(t, server, 2*time.Second), memory.New(), Options{LocalFraction: 0.5})
	other := openRedis(t, server, 10*time.Second)
	p := storetest.ConcurrencyPolicy(t, 6)
	ask := func(mode FailMode, weight int64) ([]limiter.Check, limiter.Source, error) {
		checks := []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k"), Weight: weight}}
		source, err := f.DecideIn(context.Background(), mode, checks)
		return checks, source, err
	}
	first, source, err := ask(FailLocal, 2)
	redistest.FatalIf(t, source != limiter.SourceRedis || err != nil || !limiter.Allowed(first),
		"healthy: %s %v", source, err)
	server.Kill()
	if checks, source, err := ask(FailLocal, 2); source != limiter.SourceFallback || err != nil || limiter.Allowed(checks) {
		t.Errorf("2 beside the 2 of half of 6: %s %+v %v", source, checks[0].Result, err)
	}
	second, source, err := ask(FailLocal, 1)
	redistest.ErrorIf(t, source != limiter.SourceFallback || err != nil || !limiter.Allowed(second),
		"1 beside 2 of 3: %s %+v %v", source, second[0].Result, err)
	if closed, _, err := ask(FailClosed, 1); !errors.Is(err, limiter.ErrUndecided) || decision.Kept(&closed[0]).Places != 0 {
		t.Errorf("closed: %+v %v", closed[0], err)
	}
	open, _, err := ask(FailOpen, 1)
	redistest.ErrorIf(t, !errors.Is(err, limiter.ErrUndecided) || f.Running("running") != 4,
		"open: %v; %d run, want 4", err, f.Running("running"))
	f.EndRunning(first)
	heavy, source, err := ask(FailLocal, 5)
	redistest.ErrorIf(t, source != limiter.SourceFallback || err != nil || limiter.Allowed(heavy),
		"5 beside 2 of 3: %s %+v %v", source, heavy[0].Result, err)
	server.Run(t)
	waitCounted(t, other, p, 2)
	third, source, err := ask(FailLocal, 4)
	redistest.ErrorIf(t, source != limiter.SourceRedis || err != nil || !limiter.Allowed(third) || third[0].Result.Remaining != 0,
		"4 beside 2 of 6 after the outage: %s %+v %v", source, third[0].Result, err)
	for _, checks := range [][]limiter.Check{second, open, third} {
		f.EndRunning(checks)
	}
	waitCounted(t, other, p, 0)
	redistest.Equal(t, f.Running("running"), 0, "how much runs")
}

// TestFailover_concurrency_partly runs a weight above this process's fraction of the limit.
func TestFailover_concurrency_partly(t *testing.T) {
	server := redistest.Start(t)
	f := New(openRedis(t, server, 2*time.Second), memory.New(), Options{LocalFraction: 0.1})
	p := storetest.ConcurrencyPolicy(t, 20)
	server.Kill()
	heavy := decideRunning(t, f, p, "k", 7)
	redistest.FatalIf(t, !limiter.Allowed(heavy) || f.Running("running") != 7,
		"%+v, %d run", heavy[0].Result, f.Running("running"))
	redistest.ErrorIf(t, limiter.Allowed(decideRunning(t, f, p, "k", 1)), "one more passes beside all of the fraction")
	f.EndRunning(heavy)
	redistest.Equal(t, f.Running("running"), 0, "what runs after the end")
}

// TestRedis_concurrency_flush loses Redis's data while requests run.
func TestRedis_concurrency_flush(t *testing.T) {
	server := redistest.Shared(t)
	n, other := newRunningNode(t, server), newTestRedis(t, server, 10*time.Second, limiter.KeyFormat{Prefix: "t"})
	p := storetest.ConcurrencyPolicy(t, 5)
	first := n.take(p, 3)
	server.Client(t).FlushDB(context.Background())
	second := n.take(p, 1)
	r := second[0].Result
	redistest.ErrorIf(t, !r.Passes() || r.Remaining != 1, "the first after the flush: %+v", r)
	server.Client(t).FlushDB(context.Background())
	n.EndRunning(first)
	waitCounted(t, other, p, 1)
	n.EndRunning(second)
}

// TestFailover_concurrency_full asks Redis only where another process could make a difference.
func TestFailover_concurrency_full(t *testing.T) {
	n := newRunningNode(t, redistest.Shared(t))
	p := storetest.ConcurrencyPolicy(t, 2)
	running := n.take(p, 2)
	checks := []limiter.Check{{Policy: storetest.DayPolicy(t, "rate", limiter.FixedWindow, 5), Key: limiter.EncodeKey("k")}, {Policy: p, Key: limiter.EncodeKey("k")}}
	source, err := n.Decide(context.Background(), checks)
	if source != limiter.SourceMemory || err != nil || checks[0].Result.Remaining != limiter.Unknown || checks[1].Result.RetryAfter != time.Second || checks[1].Result.Remaining != 0 {
		t.Errorf("a full process: %s %+v %v", source, checks, err)
	}
	n.EndRunning(running)
	n.settle()
	if source, err := n.Decide(context.Background(), checks); source != limiter.SourceRedis || err != nil || !limiter.Allowed(checks) {
		t.Errorf("an empty process: %s %+v %v", source, checks, err)
	}
	n.EndRunning(checks)
}

// TestRedis_concurrency_closed ends a request after its store was replaced.
func TestRedis_concurrency_closed(t *testing.T) {
	server := redistest.Shared(t)
	r := openRedis(t, server, time.Second)
	f := New(r, memory.New(), Options{})
	other := openRedis(t, server, 10*time.Second)
	p := storetest.ConcurrencyPolicy(t, 5)
	running := decideRunning(t, f, p, "k", 3)
	noError(t, r.Close())
	n := counted(t, other, p, "k")
	redistest.ErrorIf(t, n != 3, "Redis counts %d after the store was closed; its requests run on", n)
	f.EndRunning(running)
	waitCounted(t, other, p, 0)
	select {
	case <-r.Uses.Closed:
	case <-time.After(10 * time.Second):
		t.Error("the store stays open after its last request")
	}
}

// TestCluster_concurrency decides checks of two slots, all or nothing.
func TestCluster_concurrency(t *testing.T) {
	t.Parallel()
	masters := redistest.StartCluster(t)
	r := openStore(t, dial.Options{Mode: dial.Cluster, Addresses: []string{masters[0].Addr}, Timeout: 10 * time.Second}, redis.Options{KeyFormat: limiter.KeyFormat{Prefix: "t"}})
	p := storetest.ConcurrencyPolicy(t, 3)
	both := func(a, b int64) []limiter.Check {
		t.Helper()
		return storetest.Decide(t, r, limiter.Check{Policy: p, Key: limiter.EncodeKey("a"), Weight: a}, limiter.Check{Policy: p, Key: limiter.EncodeKey("b"), Weight: b})
	}
	first := both(1, 2)
	redistest.FatalIf(t, !limiter.Allowed(first) || counted(t, r, p, "a") != 1 || counted(t, r, p, "b") != 2, "%+v", first)
	denied := both(1, 2)
	redistest.ErrorIf(t, limiter.Allowed(denied) || counted(t, r, p, "a") != 1, "%+v; %d of a", denied, counted(t, r, p, "a"))
	r.EndRunning(first)
	for _, key := range []string{"a", "b"} {
		redistest.Retry(t, "both are released", func() (again bool, seen any) {
			n := counted(t, r, p, key)
			return n != 0, fmt.Sprintf("%d of %s", n, key)
		})
	}
}

// TestFailover_concurrency_open_heavy lets requests of any weight run in an outage. No sum of them makes the
// key's state foreign, on which Redis would decide nothing more.
func TestFailover_concurrency_open_heavy(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	f := New(openRedis(t, server, time.Second), memory.New(), Options{})
	other := openRedis(t, server, 10*time.Second)
	p := storetest.ConcurrencyPolicy(t, 6)
	server.Kill()
	var open [][]limiter.Check
	for range 3 {
		checks := []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k"), Weight: math.MaxInt64}}
		_, err := f.DecideIn(context.Background(), FailOpen, checks)
		redistest.FatalIf(t, !errors.Is(err, limiter.ErrUndecided), "%+v", err)
		open = append(open, checks)
	}
	redistest.Equal(t, f.Running("running"), 18, "how much runs")
	server.Run(t)
	waitCounted(t, other, p, 6)
	for _, checks := range open {
		f.EndRunning(checks)
	}
	waitCounted(t, other, p, 0)
}

// TestRedis_concurrency_refused has requests run, and no new ones come, while Redis refuses to write what runs:
// that is an outage, which is reported, and the states are not sent again and again at once.
func TestRedis_concurrency_refused(t *testing.T) {
	t.Parallel()
	r, reported, setPermissions := openLimited(t)
	var sent atomic.Int64
	send := r.Running.Send
	r.Running.Send = func(s running.Statement) {
		sent.Add(1)
		send(s)
	}
	p := storetest.NewPolicy(t, limiter.Settings{Name: "running", MaxConcurrent: 6, NodeTimeout: limiter.MinNodeTimeout})
	for key := range 5 {
		checks := storetest.Decide(t, r, limiter.Check{Policy: p, Key: limiter.EncodeKey(strconv.Itoa(key))})
		t.Cleanup(func() { r.EndRunning(checks) })
	}
	setPermissions("-hset")
	waitReported(t, reported, "outage:auth")
	waitProbes(t, r.Topology.AnyNode)
	n := sent.Load()
	redistest.ErrorIf(t, n > 200, "%d messages of 5 keys in some seconds", n)
	setPermissions("+hset")
	waitReported(t, reported, "outage:auth recovery")
}

// TestProbe_concurrency_often probes more often than the limit of probes was. It would be denied then, without a
// write.
func TestProbe_concurrency_often(t *testing.T) {
	t.Parallel()
	r, _, setPermissions := openLimited(t)
	checks := []limiter.Check{{Policy: storetest.ConcurrencyPolicy(t, 6), Key: limiter.EncodeKey("k")}}
	for range 510 {
		noError(t, r.Probe(t.Context(), checks))
	}
	setPermissions("-hset")
	err := r.Probe(t.Context(), checks)
	redistest.ErrorIf(t, limiter.Kind(err) != "auth", "without the permission to write: %v", err)
}

// TestFailover_concurrency_late_check has Redis lose what it knows of one of two policies, so that a request is sent
// twice: the other one counts it once.
func TestFailover_concurrency_late_check(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	r := openRedis(t, server, 10*time.Second)
	f := New(r, memory.New(), Options{})
	all := storetest.NewPolicy(t, limiter.Settings{Name: "all", MaxConcurrent: 5, NodeTimeout: time.Minute})
	own := storetest.NewPolicy(t, limiter.Settings{Name: "own", MaxConcurrent: 1, NodeTimeout: time.Minute})
	key := limiter.EncodeKey("k")
	first := storetest.Decide(t, f, limiter.Check{Policy: all, Key: key})
	for range 3 {
		noError(t, server.Client(t).FlushAll(t.Context()).Err())
		both := storetest.Decide(t, f, limiter.Check{Policy: all, Key: key}, limiter.Check{Policy: own, Key: key})
		redistest.FatalIf(t, !limiter.Allowed(both), "%+v", both)
		f.EndRunning(both)
	}
	f.EndRunning(first)
	waitCounted(t, r, all, 0)
}
