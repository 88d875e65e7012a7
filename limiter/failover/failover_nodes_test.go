package failover

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/memory"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/redis"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/redis/dial"
)

// TestFailover_many_nodes kills the master of 50 nodes, which all take from one quota and run requests of one key. A
// sentinel promotes the replica, which has all that was written.
func TestFailover_many_nodes(t *testing.T) {
	t.Parallel()
	const limit, places, count = 500, 25, 50
	master, replica, sentinel := startReplicated(t)
	rate, running := storetest.DayPolicy(t, "rate", limiter.FixedWindow, limit), storetest.NewPolicy(t, limiter.Settings{Name: "running", MaxConcurrent: places, NodeTimeout: limiter.MinNodeTimeout})
	var passed, lost, runs, most, decided atomic.Int64
	var taking, over atomic.Bool
	var group sync.WaitGroup
	for range count {
		r := openStore(t, dial.Options{Mode: dial.Sentinel, Master: "main", Addresses: []string{sentinel.Addr}, Timeout: 100 * time.Millisecond}, redis.Options{})
		node := New(r, memory.New(), Options{LocalFraction: 1.0 / count})
		take := func() {
			checks := []limiter.Check{{Policy: rate, Key: limiter.EncodeKey("k")}}
			if _, err := node.DecideIn(t.Context(), FailLocal, checks); err != nil {
				lost.Add(1)
			} else if limiter.Allowed(checks) {
				passed.Add(1)
			}
		}
		run := func() {
			checks := []limiter.Check{{Policy: running, Key: limiter.EncodeKey("k")}}
			source, err := node.DecideIn(t.Context(), FailClosed, checks)
			if source == limiter.SourceRedis && err == nil {
				decided.Add(1)
			}
			if err != nil || !limiter.Allowed(checks) {
				return
			}
			for now := runs.Add(1); ; {
				if before := most.Load(); before >= now || most.CompareAndSwap(before, now) {
					break
				}
			}
			<-time.After(5 * time.Millisecond)
			runs.Add(-1)
			node.EndRunning(checks)
		}
		for range limit / 2 / count {
			take()
		}
		group.Go(func() {
			for !over.Load() {
				if taking.Load() {
					take()
				}
				run()
				<-time.After(10 * time.Millisecond)
			}
		})
	}
	wantReached := func(phase string, passes, atOnce int64) {
		t.Helper()
		if t.Logf("%s: %d passed, at most %d ran", phase, passed.Load(), most.Load()); passed.Load() > passes || most.Swap(0) > atOnce {
			t.Errorf("%s: too many", phase)
		}
	}
	waitDecided := func(what string) {
		t.Helper()
		before := decided.Load()
		redistest.WaitFor(t, what, func() error {
			if n := decided.Load() - before; n < 20*count {
				return fmt.Errorf("%d decisions", n)
			}
			return nil
		})
	}
	waitDecided("all nodes run requests")
	noError(t, master.Client(t).Wait(t.Context(), 1, time.Minute).Err())
	wantReached("before", limit/2, places)
	taking.Store(true)
	killed := time.Now()
	master.Kill()
	redistest.WaitFor(t, "the replica is the master", func() error { return infoHas(t, replica, "replication", "role:master") })
	waitDecided("Redis decides again")
	t.Logf("%v", time.Since(killed))
	wantReached("failover", 2*limit, 2*places)
	<-time.After(running.Settings().NodeTimeout / 3) // by when all nodes have said what they run
	most.Store(0)
	waitDecided("all nodes go on")
	wantReached("after", 2*limit, places)
	over.Store(true)
	group.Wait()
	left, err := limiter.Peek(t.Context(), openStore(t, dial.Options{Addresses: []string{replica.Addr}}, redis.Options{}), rate, "k")
	if err != nil || left.Remaining != 0 || lost.Load() > 0 || passed.Load() < limit {
		t.Errorf("%+v, %v; %d passed, %d were not decided", left, err, passed.Load(), lost.Load())
	}
}

// startReplicated starts a master with a replica that follows it, and a sentinel.
func startReplicated(t *testing.T) (master, replica, sentinel *redistest.Server) {
	t.Helper()
	master = redistest.Start(t, "--repl-diskless-sync-delay", "0")
	host, port, _ := strings.Cut(master.Addr, ":")
	replica = redistest.Start(t, "--replicaof", host, port)
	redistest.WaitFor(t, "the replica follows", func() error { return infoHas(t, master, "replication", "state=online") })
	sentinel = redistest.StartSentinel(t, master, "main", "sentinel down-after-milliseconds main 500", "sentinel failover-timeout main 5000")
	redistest.WaitFor(t, "the sentinel has found the replica", func() error { return infoHas(t, sentinel, "sentinel", "slaves=1") })
	return master, replica, sentinel
}

// infoHas reports an error unless a section of INFO has a text.
func infoHas(t *testing.T, server *redistest.Server, section, text string) error {
	t.Helper()
	info, err := server.Client(t).Info(t.Context(), section).Result()
	if err == nil && !strings.Contains(info, text) {
		err = errors.New(info)
	}
	return err
}
