package failover

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/memory"
)

// TestFailover_Peek peeks often, on Redis and in process, at states of every algorithm.
func TestFailover_Peek(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	for name, f := range map[string]*Store{
		"redis":  New(openRedis(t, server, 10*time.Second), memory.New(), Options{}),
		"memory": New(nil, memory.New(), Options{}),
	} {
		for _, algorithm := range limiter.Algorithms() {
			t.Run(name+"/"+algorithm, func(t *testing.T) {
				p := storetest.DayPolicy(t, "peek-"+name+"-"+algorithm, algorithm, 3)
				peek := func(weight int64) limiter.Result {
					check := limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Weight: weight, Peek: weight == 0}
					if source, err := f.Peek(context.Background(), &check); err != nil || string(source) != name {
						t.Fatal(source, err)
					}
					return check.Result
				}
				if got := peek(1); got.Remaining != 3 || got.ResetAfter != 0 || !got.Passes() {
					t.Errorf("a new quota: %+v", got)
				}
				for remaining := int64(2); remaining >= 0; remaining-- {
					checks := []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k"), Weight: 1}}
					if _, err := f.Decide(context.Background(), checks); err != nil {
						t.Fatal(err)
					}
					for range 5 {
						if got := peek(1); got.Remaining != remaining || got.Passes() != (remaining > 0) || got.ResetAfter <= 0 {
							t.Errorf("%d should remain: %+v", remaining, got)
						}
					}
				}
				if got := peek(4); got.RetryAfter != limiter.Never {
					t.Errorf("more than the capacity: %+v", got)
				}
			})
		}
	}
}

// TestFailover_Peek_outage: the error is the outage's, the state is the local one.
func TestFailover_Peek_outage(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	f := New(openRedis(t, server, time.Second), memory.New(), Options{})
	p := storetest.DayPolicy(t, "peek-outage", limiter.TokenBucket, 3)
	if _, err := f.Decide(context.Background(), []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k"), Weight: 2}}); err != nil {
		t.Fatal(err)
	}
	server.Kill()
	check := limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Weight: 1}
	source, err := f.Peek(context.Background(), &check)
	if !errors.Is(err, limiter.ErrUndecided) || source != limiter.SourceFallback || check.Result.Remaining != 1 {
		t.Errorf("%v, %v, %+v", source, err, check.Result)
	}
	server.Run(t)
	redistest.WaitFor(t, "a peek succeeds as soon as Redis is back, even while the breaker is open", func() error {
		_, err := f.Peek(context.Background(), &check)
		return err
	})
}
