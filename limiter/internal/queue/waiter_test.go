package queue

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/decision"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/wire"
)

// TestWaiter_of_calls_that_change_hands has callers leave at the moment at which their calls are sent or
// answered, and calls and waiters pass from one owner to the next. Every caller gets the answer to its own
// call, or an error that is its own.
func TestWaiter_of_calls_that_change_hands(t *testing.T) {
	var b Batcher
	b.Send = func(_ context.Context, calls []*Call) bool {
		time.Sleep(rand.N(200 * time.Microsecond)) //nolint:forbidigo // the Redis of this test
		for _, c := range calls {
			c.Err = nil
			c.Checks[0].Result.Remaining = c.Checks[0].Weight
		}
		return false // so that no call is sent alone
	}
	end := time.Now().Add(time.Second)
	var callers sync.WaitGroup
	var mu sync.Mutex
	outcomes := map[error]int{}
	for caller := range 64 {
		callers.Go(func() {
			for n := int64(1); time.Now().Before(end); n++ {
				own := int64(caller)<<32 + n
				ctx, cancel := context.WithCancel(context.Background())
				if caller%2 == 0 {
					time.AfterFunc(rand.N(300*time.Microsecond), cancel)
				}
				c := NewCall(wire.OpTake, []limiter.Check{{Key: limiter.EncodeKey("k"), Weight: own}})
				err := b.Do(ctx, c, 50*time.Microsecond+rand.N(500*time.Microsecond))
				if err == nil {
					if got := c.Checks[0]; got.Weight != own || got.Result.Remaining != own {
						t.Errorf("a caller got the call of another: %d of %d", got.Result.Remaining, own)
					}
					c.Recycle()
				}
				if errors.Is(err, context.Canceled) && caller%2 != 0 {
					t.Error("a caller got the error of a client that left, and its own did not")
				}
				cancel()
				mu.Lock()
				outcomes[err]++
				mu.Unlock()
			}
		})
	}
	callers.Wait()
	t.Log(outcomes)
	redistest.ErrorIf(t, outcomes[nil] == 0 || outcomes[decision.ErrTimeout] == 0,
		"outcomes %v, want answers and timeouts", outcomes)
	redistest.Retry(t, "the looks end", func() (again bool, seen any) {
		b.Mu.Lock()
		defer b.Mu.Unlock()
		return b.expiry.IsSet() || len(b.Waiting) > 0, fmt.Sprintf("looking %v, %d calls wait", b.expiry.IsSet(), len(b.Waiting))
	})
}

// TestWaiter_of_a_shorter_timeout has a caller leave on time though the next look was to be later.
func TestWaiter_of_a_shorter_timeout(t *testing.T) {
	g := newGate()
	defer close(g.release)
	ctx, leave := context.WithCancel(context.Background())
	errs := make(chan error, 2)
	g.request(ctx, time.Hour, func(err error) { errs <- err })
	<-g.started
	w := NewCall(wire.OpTake, nil).AwaitedBy(ctx, clock.Now().Add(time.Millisecond))
	g.Mu.Lock()
	g.expireBy(w)
	due := g.expiry.Due()
	redistest.ErrorIf(t, due != w.until && clock.Now() < w.until, "looking at %v, want %v", due, w.until)
	g.Mu.Unlock()
	w.Recycle()
	leave()
	err := <-errs
	redistest.ErrorIf(t, !errors.Is(err, context.Canceled), "got %v of a call that was sent, want the client's leave", err)
}

// TestBatcher_expireBy_after_a_look has no second look within a millisecond, however soon a call is due.
func TestBatcher_expireBy_after_a_look(t *testing.T) {
	var b Batcher
	defer b.expiry.Stop()
	b.Mu.Lock()
	defer b.Mu.Unlock()
	b.expired = clock.Now()
	for _, due := range []time.Duration{time.Hour, time.Microsecond, 0} {
		b.expireBy(&Waiter{until: b.expired.Add(due)})
	}
	if got := b.expiry.Due().Since(b.expired); got != expirySpacing && clock.Now().Since(b.expired) < expirySpacing {
		t.Errorf("the next look is %v after the last one, want %v", got, expirySpacing)
	}
}
