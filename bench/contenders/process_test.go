package contenders

import (
	"context"
	"strconv"
	"testing"
	"time"

	golimiter "github.com/sethvargo/go-limiter"
	"github.com/sethvargo/go-limiter/memorystore"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/memstore"

	ours "github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/memory"
)

// inProcess are limiters of Go programs that count in the process. Each function takes a unit of a key.
func inProcess(tb testing.TB) map[string]func(ctx context.Context, key string) (allowed bool, err error) {
	tb.Helper()
	must := func(err error) {
		if err != nil {
			tb.Fatal(err)
		}
	}
	allow := func(algorithm string) func(context.Context, string) (bool, error) {
		policy, err := ours.NewPolicy(ours.Settings{Name: "p", Algorithm: algorithm, Limit: Limit, Window: Window})
		must(err)
		store := memory.New()
		return func(ctx context.Context, key string) (bool, error) {
			result, err := ours.Allow(ctx, store, policy, key)
			return result.Passes(), err
		}
	}
	kept, err := memstore.NewCtx(0)
	must(err)
	gcra, err := throttled.NewGCRARateLimiterCtx(kept, throttled.RateQuota{MaxRate: throttled.PerHour(Limit), MaxBurst: Limit - 1})
	must(err)
	var buckets golimiter.Store
	buckets, err = memorystore.New(&memorystore.Config{Tokens: Limit, Interval: Window})
	must(err)
	tb.Cleanup(func() { must(buckets.Close(context.Background())) })
	return map[string]func(context.Context, string) (bool, error){
		"this module, gcra":                   allow(ours.GCRA),
		"this module, fixed_window":           allow(ours.FixedWindow),
		"this module, sliding_window_counter": allow(ours.SlidingWindowCounter),
		"throttled, gcra": func(ctx context.Context, key string) (bool, error) {
			limited, _, err := gcra.RateLimitCtx(ctx, key, 1)
			return !limited, err
		},
		"go-limiter, token bucket": func(ctx context.Context, key string) (bool, error) {
			_, _, _, allowed, err := buckets.Take(ctx, key)
			return allowed, err
		},
	}
}

// BenchmarkInProcess compares a decision by this module's store in the process with those of other Go packages, for 5,000
// clients.
func BenchmarkInProcess(b *testing.B) {
	keys := make([]string, 5000)
	for i := range keys {
		keys[i] = "203.0.113." + strconv.Itoa(i)
	}
	for name, take := range inProcess(b) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for i := int(time.Now().UnixNano() % 5000); pb.Next(); i++ {
					if allowed, err := take(b.Context(), keys[i%len(keys)]); !allowed || err != nil {
						b.Errorf("allowed %t, error %v", allowed, err)
						return
					}
				}
			})
		})
	}
}

// TestInProcess_allows has each limiter take a unit of a client.
func TestInProcess_allows(t *testing.T) {
	for name, take := range inProcess(t) {
		if allowed, err := take(t.Context(), "client"); !allowed || err != nil {
			t.Errorf("%s: allowed %t, error %v", name, allowed, err)
		}
	}
}
