package failover

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/memory"
)

// TestBucket_refund_longResponses holds the documentation to how much of the estimates a busy bucket refunds
// that drains in a minute. Responses take half to one and a half times as long as named. What has drained
// cannot come back.
func TestBucket_refund_longResponses(t *testing.T) {
	t.Parallel()
	for took, least := range map[time.Duration]float64{2 * time.Second: 0.995, 10 * time.Second: 0.97, 30 * time.Second: 0.78} {
		now := storetest.Epoch
		f := New(nil, memory.NewOnClock(func() int64 { return now }), Options{})
		p := storetest.NewPolicy(t, limiter.Settings{Name: "busy", Algorithm: limiter.TokenBucket, Limit: 6000, Window: time.Minute})
		random := rand.New(rand.NewPCG(1, uint64(took)))
		type open struct {
			check limiter.Check
			ends  int64
		}
		var running []open
		debt := func() int64 {
			s := f.local.Lock(p, "k")
			defer s.Mu.Unlock()
			return p.Rule().Algorithm.Kernel.Decide(s.Get(p, "k", now), now/p.Rule().Params.Tick, &p.Rule().Params, 0, 0).Next.A
		}
		var owed, refunded int64
		for range 6000 {
			now += storetest.Sec / 10
			kept := running[:0]
			for _, r := range running {
				if r.ends > now {
					kept = append(kept, r)
					continue
				}
				cost := random.Int64N(r.check.Weight + 1)
				before := debt()
				f.Settle(r.check, cost, limiter.SourceMemory)
				owed, refunded = owed+r.check.Weight-cost, refunded+(before-debt())/p.Rule().Params.Window
			}
			running = kept
			for {
				taken := storetest.Decide(t, f, limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Weight: 1 + random.Int64N(200), Refundable: true})
				if !limiter.Allowed(taken) {
					break
				}
				running = append(running, open{taken[0], now + took.Microseconds()/2 + random.Int64N(took.Microseconds())})
			}
		}
		part := float64(refunded) / float64(owed)
		t.Logf("responses of %v: %.1f %% of %d units came back", took, 100*part, owed)
		if part < least {
			t.Errorf("responses of %v: %.1f %% of %d units came back", took, 100*part, owed)
		}
	}
}
