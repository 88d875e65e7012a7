package failover

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
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

// reserveMany makes takes that can be refunded, in parallel.
func reserveMany(t *testing.T, f *Store, p *limiter.Policy, key string, n int) [][]limiter.Check {
	t.Helper()
	reserved := make([][]limiter.Check, n)
	storetest.InParallel(len(reserved), func(i int) {
		reserved[i] = []limiter.Check{{Policy: p, Key: limiter.EncodeKey(key), Weight: 1, Refundable: true}}
		if _, err := f.DecideIn(context.Background(), limiter.FailClosed, reserved[i]); err != nil || !limiter.Allowed(reserved[i]) {
			t.Errorf("%+v %v", reserved[i], err)
		}
	})
	return reserved
}

// TestFailover_Refund_long_log has 600 requests of a client end at once. In one case as many entries
// follow as is worst; in the other as many as in the first attack that was found.
func TestFailover_Refund_long_log(t *testing.T) {
	for _, later := range []int{300, 9000} {
		t.Run(fmt.Sprint("later=", later), func(t *testing.T) {
			server := redistest.Start(t)
			client, ctx := server.Client(t), context.Background()
			r := stores.Open(t, server)
			f := New(r, memory.New(), Behavior{})
			p, other := storetest.RefundingPolicy(t, "log", limiter.SlidingWindowLog, 100_000), storetest.DayPolicy(t, "other", limiter.GCRA, 1_000_000)
			reserved := reserveMany(t, f, p, "k", 600)
			for left := later; left > 0; left -= 300 {
				reserveMany(t, f, p, "k", 300)
			}
			runs := func() float64 { return redistest.InfoSum(t, client, "commandstats", `cmdstat_evalsha:calls=(\d+)`) }
			before := runs()
			want := int64(100_000 - later)
			if later > 1000 {
				want -= 600
			}
			for _, checks := range reserved {
				refundAll(f, checks, limiter.SourceRedis)
			}
			var asked, undecided int
			assert.Retry(t, "all is refunded", func() (again bool, seen any) {
				for range 20 {
					_, err := f.DecideIn(ctx, limiter.FailClosed, []limiter.Check{{Policy: other, Key: limiter.EncodeKey(fmt.Sprint(asked)), Weight: 1}})
					if asked++; err != nil {
						undecided++
					}
				}
				check := limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Peek: true}
				err := r.Peek(ctx, &check)
				return err != nil || check.Result.Remaining != want, fmt.Sprintf("%+v, want %d, %v", check.Result, want, err)
			})
			took := runs() - before
			assert.ErrorIf(t, undecided > 0 || took < 10,
				"%d of %d requests of others were not decided; all was refunded in %v runs", undecided, asked, took)
		})
	}
}

// TestFailover_Refund_order has a client of one unit return as soon as its refund is queued, while
// others keep Redis busy. Without an order a few requests in a hundred overtook the refund and were
// denied, at once; so did those that follow a charge. A request waits 10 ms for the refund, or longer where batches stall: on a
// machine that is busy with other things a later denial says nothing.
func TestFailover_Refund_order(t *testing.T) {
	t.Parallel()
	for trip, rounds := range map[time.Duration]int{0: 400, 6 * time.Millisecond: 120} {
		t.Run(fmt.Sprint("round trip ", trip), func(t *testing.T) {
			proxy := redistest.NewProxy(t, redistest.Start(t).Addr)
			proxy.Delay(trip)
			r := stores.OpenStore(t, dial.Connection{Addresses: []string{proxy.Addr}, Timeout: stores.Patience}, redis.Setup{})
			f := New(r, memory.New(), Behavior{})
			p, budget := storetest.RefundingPolicy(t, "one", limiter.FixedWindow, 1), storetest.DayPolicy(t, "budget", limiter.FixedWindow, 1)
			stop := keepBusy(t, f, p, budget)
			defer stop()
			overtook, unpaid := 0, 0
			const longestHold = 10 * time.Millisecond
			for i := range rounds {
				asked := time.Now()
				checks := []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k"), Weight: 1, Refundable: true}}
				assert.NoError(f.DecideIn(context.Background(), limiter.FailClosed, checks))(t)
				if !limiter.Allowed(checks) {
					if time.Since(asked) < longestHold {
						overtook++
					}
					continue // already refunded
				}
				refundAll(f, checks, limiter.SourceRedis)
				if i%4 > 0 {
					continue
				}
				owes := []limiter.Check{{Policy: budget, Key: limiter.EncodeKey(fmt.Sprint(i)), Weight: 1}}
				chargeAll(f, owes, limiter.SourceRedis)
				asked = time.Now()
				_, err := f.DecideIn(context.Background(), limiter.FailClosed, owes)
				if assert.Must(t, err); limiter.Allowed(owes) && time.Since(asked) < longestHold {
					unpaid++
				}
			}
			assert.ErrorIf(t, overtook > 0 || unpaid > 0,
				"of %d requests %d overtook a refund, and of %d so many a charge: %d", rounds, overtook, rounds/4, unpaid)
			stop()
			assert.Retry(t, "nothing is left of those that were followed", func() (again bool, seen any) {
				b := &r.Topology.AnyNode.Batcher
				b.Mu.Lock()
				defer b.Mu.Unlock()
				return len(b.Waiting)+len(b.Unsettled.Quotas) > 0, fmt.Sprintf("%d calls wait, %d quotas", len(b.Waiting), len(b.Unsettled.Quotas))
			})
		})
	}
}

// keepBusy sends requests of other clients, for the same policies, until the function is called.
func keepBusy(t *testing.T, f *Store, refunds, charges *limiter.Policy) (stop func()) {
	t.Helper()
	var over atomic.Bool
	var group sync.WaitGroup
	for i := range 16 {
		group.Go(func() {
			for n := 0; !over.Load(); n++ {
				checks := []limiter.Check{{Policy: refunds, Key: limiter.EncodeKey(fmt.Sprint("busy", i)), Weight: 1, Refundable: true}}
				if n%4 == 0 {
					checks = []limiter.Check{{Policy: charges, Key: limiter.EncodeKey(fmt.Sprint("busy", i)), Weight: 1}}
				}
				if _, err := f.DecideIn(context.Background(), limiter.FailClosed, checks); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	return func() {
		over.Store(true)
		group.Wait()
	}
}

// TestFailover_many_nodes kills the master of 50 nodes, which all take from one quota and run requests of one key. A
// sentinel promotes the replica, which has all that was written.
func TestFailover_many_nodes(t *testing.T) {
	t.Parallel()
	const limit, places, count = 500, 25, 50
	master, replica, sentinel := startReplicated(t)
	rate, running := storetest.DayPolicy(t, "rate", limiter.FixedWindow, limit), storetest.ConcurrencyPolicy(t, places)
	var passed, lost, runs, most, decided atomic.Int64
	var taking, over atomic.Bool
	var group sync.WaitGroup
	for range count {
		r := stores.OpenStore(t, dial.Connection{Mode: dial.Sentinel, Master: "main", Addresses: []string{sentinel.Addr}, Timeout: 100 * time.Millisecond}, redis.Setup{})
		node := New(r, memory.New(), Behavior{LocalFraction: 1.0 / count})
		take := func() {
			checks := []limiter.Check{{Policy: rate, Key: limiter.EncodeKey("k")}}
			if _, err := node.DecideIn(t.Context(), limiter.FailLocal, checks); err != nil {
				lost.Add(1)
			} else if limiter.Allowed(checks) {
				passed.Add(1)
			}
		}
		run := func() {
			checks := []limiter.Check{{Policy: running, Key: limiter.EncodeKey("k")}}
			source, err := node.DecideIn(t.Context(), limiter.FailClosed, checks)
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
				<-time.After(20 * time.Millisecond)
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
		assert.WaitFor(t, what, func() error {
			if n := decided.Load() - before; n < 20*count {
				return fmt.Errorf("%d decisions", n)
			}
			return nil
		})
	}
	waitDecided("all nodes run requests")
	assert.Must(t, master.Client(t).Wait(t.Context(), 1, time.Minute).Err())
	wantReached("before", limit/2, places)
	taking.Store(true)
	killed := time.Now()
	master.Kill()
	assert.Must(t, sentinel.Client(t).Do(t.Context(), "sentinel", "set", "main", "down-after-milliseconds", "500").Err())
	assert.WaitFor(t, "the replica is the master", func() error { return infoHas(t, replica, "replication", "role:master") })
	waitDecided("Redis decides again")
	t.Logf("%v", time.Since(killed))
	wantReached("failover", 2*limit, 2*places)
	assert.Retry(t, "no more run at once than may", func() (again bool, seen any) { // as soon as all nodes have said what they run
		most.Store(0)
		waitDecided("all nodes go on")
		return most.Load() > places, most.Load()
	})
	wantReached("after", 2*limit, places)
	over.Store(true)
	group.Wait()
	left, err := storetest.Peek(t.Context(), stores.OpenStore(t, dial.Connection{Addresses: []string{replica.Addr}, Timeout: time.Minute}, redis.Setup{}), rate, "k")
	assert.ErrorIf(t, err != nil || left.Remaining != 0 || lost.Load() > 0 || passed.Load() < limit,
		"%+v, %v; %d passed, %d were not decided", left, err, passed.Load(), lost.Load())
}

// startReplicated starts a master with a replica that follows it, and a sentinel, which promotes the replica of no master that
// is merely slow.
func startReplicated(t *testing.T) (master, replica, sentinel *redistest.Server) {
	t.Helper()
	master = redistest.Start(t, "--repl-diskless-sync-delay", "0")
	host, port, _ := strings.Cut(master.Addr, ":")
	replica = redistest.Start(t, "--replicaof", host, port)
	assert.WaitFor(t, "the replica follows", func() error { return infoHas(t, master, "replication", "state=online") })
	sentinel = redistest.StartSentinel(t, master, "main", "sentinel down-after-milliseconds main 60000", "sentinel failover-timeout main 5000")
	assert.WaitFor(t, "the sentinel has found the replica", func() error { return infoHas(t, sentinel, "sentinel", "slaves=1") })
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
