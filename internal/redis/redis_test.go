package redis_test

import (
	"context"
	"errors"
	"fmt"
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

func TestStores_Decide_concurrent(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	const goroutines, each, limit, weight = 64, 20, 101, 3
	for _, algorithm := range limiter.Algorithms() {
		byName := map[string][]limiter.Store{
			"memory": {memory.New()},
			"redis":  {stores.Open(t, server), stores.Open(t, server), stores.Open(t, server)},
		}
		for name, nodes := range byName {
			t.Run(name+"/"+algorithm, func(t *testing.T) {
				p := storetest.DayPolicy(t, "busy-"+algorithm, algorithm, limit)
				var allowed atomic.Int64
				storetest.InParallel(goroutines, func(i int) {
					for range each {
						checks := []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k"), Weight: weight, Peek: weight == 0}}
						_, err := nodes[i%len(nodes)].Decide(context.Background(), checks)
						assert.ErrorIf(t, err != nil, "%v", err)
						if limiter.Allowed(checks) {
							allowed.Add(1)
						}
					}
				})
				assert.Equal(t, allowed.Load(), limit/weight, "the number of requests of weight %d that passed", weight)
			})
		}
	}
}

// sendBatch decides calls in one batch, past the queue.
func sendBatch(r *redis.Store, requests [][]limiter.Check) []*redis.Call {
	calls := make([]*redis.Call, len(requests))
	for i, checks := range requests {
		calls[i] = redis.NewCall(redis.OpTake, checks)
	}
	r.Send(context.Background(), r.Topology.AnyNode, calls)
	return calls
}

func TestBatch_shapes(t *testing.T) {
	t.Parallel()
	r := stores.Open(t, redistest.Shared(t))
	var requests [][]limiter.Check
	for i := range 128 {
		p := storetest.DayPolicy(t, fmt.Sprintf("shape-%d", i%7), limiter.Algorithms()[i%6], int64(100+i%7))
		checks := []limiter.Check{{Policy: p, Key: limiter.EncodeKey(fmt.Sprint("client-", i)), Weight: int64(1 + i%3)}}
		if i%4 == 0 {
			checks = append(checks, limiter.Check{Policy: storetest.DayPolicy(t, "second", limiter.GCRA, 50), Key: limiter.EncodeKey(fmt.Sprint("client-", i)), Weight: 2})
		}
		requests = append(requests, checks)
	}
	for i, c := range sendBatch(r, requests) {
		assert.Must(t, c.Err)
		for j := range c.Checks {
			if want := c.Checks[j].Policy.Capacity() - c.Checks[j].Weight; c.Checks[j].Result.Remaining != want {
				t.Errorf("request %d, check %d: %d remaining, want %d", i, j, c.Checks[j].Result.Remaining, want)
			}
		}
	}
}

func TestRedis_key_TTL(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	client, ctx := server.Client(t), context.Background()
	r := stores.Open(t, server)
	for _, algorithm := range limiter.Algorithms() {
		p := storetest.NewPolicy(t, limiter.Settings{Name: "ttl-" + algorithm, Algorithm: algorithm, Limit: 100, Window: time.Minute})
		began := time.Now()
		result := storetest.Decide(t, r, limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Weight: 40})[0].Result
		ttl := client.PTTL(ctx, "rl:{k}:"+p.ID).Val()
		passed := time.Since(began)
		assert.ErrorIf(t, ttl > result.ResetAfter+2*time.Millisecond || ttl < result.ResetAfter-passed-2*time.Millisecond,
			"%s: the key lives %v, the state %v, asked within %v", algorithm, ttl, result.ResetAfter, passed)
		unused := storetest.Decide(t, r, limiter.Check{Policy: p, Key: limiter.EncodeKey("unused"), Peek: true})[0].Result
		n := client.Exists(ctx, "rl:{unused}:"+p.ID).Val()
		assert.ErrorIf(t, n != 0 || unused.Remaining != 100, "%s: a check of weight 0 left %d keys, %+v", algorithm, n, unused)
	}
}

// TestRedis_Decide_lost_reply cuts the connection after every request, when Redis has executed it
// and before its reply arrives.
func TestRedis_Decide_lost_reply(t *testing.T) {
	t.Parallel()
	proxy := redistest.NewProxy(t, redistest.Start(t).Addr)
	r := stores.OpenStore(t, dial.Connection{Addresses: []string{proxy.Addr}, Timeout: stores.Patience}, redis.Setup{KeyFormat: limiter.KeyFormat{Prefix: "rl"}})
	p := storetest.DayPolicy(t, "lost", limiter.FixedWindow, 1_000)
	storetest.Decide(t, r, limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Weight: 1})
	const lost = 20
	for range lost {
		for range 2 { // opens a connection; the breaker opens where half of a second's requests fail
			storetest.Decide(t, r, limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Peek: true})
		}
		proxy.CutNextReply()
		_, err := r.Decide(context.Background(), []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k"), Weight: 1}})
		assert.FatalIf(t, !errors.Is(err, limiter.ErrUndecided) || limiter.Kind(err) != "connection",
			"a request without a reply was decided: %v", err)
	}
	storetest.WantRemaining(t, r, p, "k", 1_000-1-lost) // one was answered
}
