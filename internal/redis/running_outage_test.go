package redis_test

import (
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/dial"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redis"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest/stores"
)

// TestCluster_concurrency decides checks of two slots, all or nothing.
func TestCluster_concurrency(t *testing.T) {
	t.Parallel()
	r, _ := stores.OpenCluster(t)
	p := storetest.ConcurrencyPolicy(t, 3)
	both := func(a, b int64) []limiter.Check {
		t.Helper()
		return storetest.Decide(t, r, limiter.Check{Policy: p, Key: limiter.EncodeKey("a"), Weight: a}, limiter.Check{Policy: p, Key: limiter.EncodeKey("b"), Weight: b})
	}
	first := both(1, 2)
	assert.FatalIf(t, !limiter.Allowed(first) || stores.Counted(t, r, p, "a") != 1 || stores.Counted(t, r, p, "b") != 2, "%+v", first)
	denied := both(1, 2)
	assert.ErrorIf(t, limiter.Allowed(denied) || stores.Counted(t, r, p, "a") != 1, "%+v; %d of a", denied, stores.Counted(t, r, p, "a"))
	r.EndRunning(first)
	for _, key := range []string{"a", "b"} {
		assert.Retry(t, "both are released", func() (again bool, seen any) {
			n := stores.Counted(t, r, p, key)
			return n != 0, fmt.Sprintf("%d of %s", n, key)
		})
	}
}

// TestRedis_concurrency_refused has requests run, and no new ones come, while Redis refuses to write what runs:
// that is an outage, which is reported, and the states are not sent again and again at once.
func TestRedis_concurrency_refused(t *testing.T) {
	t.Parallel()
	r, reported, setPermissions := stores.OpenLimited(t)
	var sent atomic.Int64
	send := r.Running.Send
	r.Running.Send = func(m redis.Run) {
		sent.Add(1)
		send(m)
	}
	p := storetest.NewPolicy(t, limiter.Settings{Name: "running", MaxConcurrent: 6, NodeTimeout: limiter.MinNodeTimeout})
	for key := range 5 {
		checks := storetest.Decide(t, r, limiter.Check{Policy: p, Key: limiter.EncodeKey(strconv.Itoa(key))})
		t.Cleanup(func() { r.EndRunning(checks) })
	}
	setPermissions("-hset")
	stores.WaitReported(t, reported, "outage:auth")
	waitProbes(t, r.Topology.AnyNode)
	n := sent.Load()
	assert.ErrorIf(t, n > 200, "%d messages of 5 keys in some seconds", n)
	setPermissions("+hset")
	stores.WaitReported(t, reported, "outage:auth recovery")
}

// TestProbe_concurrency_often probes more often than the limit of probes was. It would be denied then, without a
// write.
func TestProbe_concurrency_often(t *testing.T) {
	t.Parallel()
	r, _, setPermissions := stores.OpenLimited(t)
	checks := []limiter.Check{{Policy: storetest.ConcurrencyPolicy(t, 6), Key: limiter.EncodeKey("k")}}
	for range 510 {
		assert.Must(t, r.Probe(t.Context(), checks))
	}
	setPermissions("-hset")
	err := r.Probe(t.Context(), checks)
	assert.ErrorIf(t, limiter.Kind(err) != "auth", "without the permission to write: %v", err)
}

// stoppedTimer is a timer that never fires, and knows for how long it was set last.
type stoppedTimer struct {
	mu sync.Mutex
	d  time.Duration
}

func (s *stoppedTimer) Reset(d time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.d = d
	return true
}

func (*stoppedTimer) Stop() bool { return true }

func (s *stoppedTimer) set() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.d
}

// TestRunning_told_at_once has a node tell what it runs as soon as Redis decides again, not at the next look.
func TestRunning_told_at_once(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	r := stores.OpenStore(t, dial.Connection{Addresses: []string{server.Addr}, Timeout: stores.Patience}, redis.Setup{})
	timer := new(stoppedTimer)
	r.Running.Ticks.After = func(d time.Duration, _ func()) clock.Timer {
		timer.Reset(d)
		return timer
	}
	checks := storetest.Decide(t, r, limiter.Check{Policy: storetest.ConcurrencyPolicy(t, 2), Key: limiter.EncodeKey("k"), Weight: 1})
	r.Running.Ticks.Stop()
	r.Running.Ticks.Start(time.Hour)
	server.Kill()
	stores.WaitFailing(t, &r.Topology, true, func() {
		_, _ = r.Decide(t.Context(), []limiter.Check{{Policy: checks[0].Policy, Key: checks[0].Key, Weight: 1}})
	})
	server.Run(t)
	assert.Retry(t, "a state is due at once", func() (again bool, seen any) { return timer.set() > 0, timer.set() })
	r.EndRunning(checks)
}
