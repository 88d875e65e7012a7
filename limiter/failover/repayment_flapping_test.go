package failover

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/memory"
)

// TestRepayment_flapping has Redis refuse writes again and again under load. Requests and settlements that
// it refuses have certainly not run, so that each unit that two nodes admitted arrives once.
func TestRepayment_flapping(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	nodes := []*Store{
		New(openRedis(t, server, 10*time.Second), memory.New(), Options{}),
		New(openRedis(t, server, 10*time.Second), memory.New(), Options{}),
	}
	policies := []*limiter.Policy{
		storetest.DayPolicy(t, "window", limiter.FixedWindow, 1_000_000), storetest.DayPolicy(t, "counter", limiter.SlidingWindowCounter, 1_000_000),
		storetest.DayPolicy(t, "log", limiter.SlidingWindowLog, 100_000),
	}
	const keys, requests, flaps = 4, 3000, 20
	var admitted [3][keys]atomic.Int64
	var fallbacks, sent atomic.Int64
	var load sync.WaitGroup
	for client := range 4 {
		load.Go(func() {
			for range requests {
				p, k, units := rand.IntN(3), rand.IntN(keys), rand.Int64N(3)+1
				checks := []limiter.Check{{Policy: policies[p], Key: limiter.EncodeKey(fmt.Sprint(k)), Weight: units}}
				source, err := nodes[client%2].Decide(t.Context(), checks)
				if err != nil || !limiter.Allowed(checks) {
					t.Errorf("%v, %+v", err, checks)
					return
				}
				if source == limiter.SourceFallback {
					fallbacks.Add(1)
				}
				admitted[p][k].Add(units)
				sent.Add(1)
			}
		})
	}
	admin := server.Client(t)
	for flap := range flaps {
		redistest.WaitFor(t, "more requests were sent", func() error {
			if got := sent.Load(); got < int64(4*requests*(flap+1)/(flaps+1)) {
				return fmt.Errorf("%d", got)
			}
			return nil
		})
		memory := "1"
		if flap%2 == 1 {
			memory = "0"
		}
		noError(t, admin.ConfigSet(t.Context(), "maxmemory", memory).Err())
		if memory == "0" { // without waiting for the probe
			for _, n := range nodes {
				n.shared.Topology.AnyNode.Breaker.Close()
			}
		}
	}
	load.Wait()
	redistest.WaitFor(t, "all debts are settled", func() error {
		for _, n := range nodes {
			if !n.ledger.isEmpty() {
				return fmt.Errorf("%d accounts are left", n.ledger.size.Load())
			}
		}
		return nil
	})
	for p, policy := range policies {
		for k := range keys {
			var left limiter.Result
			var err error
			for _, n := range nodes { // each answers after its own settlements
				left, err = limiter.Peek(t.Context(), n, policy, fmt.Sprint(k))
			}
			if got, want := policy.Capacity()-left.Remaining, admitted[p][k].Load(); err != nil || got != want {
				t.Errorf("%s, key %d: Redis has counted %d, %v; want %d", policy.Name(), k, got, err, want)
			}
		}
	}
	if fallbacks.Load() == 0 {
		t.Error("Redis decided all requests")
	}
	t.Logf("%d of %d requests were decided by the nodes", fallbacks.Load(), sent.Load())
}
