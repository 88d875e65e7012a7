package redis

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest"
)

// TestWaiter_of_calls_that_change_hands has callers leave at the moment at which their calls are sent or
// answered, and calls and waiters pass from one owner to the next. Every caller gets the answer to its own
// call, or an error that is its own.
func TestWaiter_of_calls_that_change_hands(t *testing.T) {
	var b batcher
	b.Send = func(_ context.Context, calls []*Call) bool {
		time.Sleep(rand.N(200 * time.Microsecond)) //nolint:forbidigo // the Redis of this test
		for _, c := range calls {
			c.Err = nil
			c.Checks[0].Result.Remaining = c.Checks[0].Weight
		}
		return false // so that no call is sent alone
	}
	end, latest := time.Now().Add(time.Second), time.Now().Add(time.Minute)
	var callers sync.WaitGroup
	var mu sync.Mutex
	outcomes := map[error]int{}
	goesOn := func() bool {
		now := time.Now()
		mu.Lock()
		defer mu.Unlock()
		return now.Before(end) || now.Before(latest) && (outcomes[nil] == 0 || outcomes[limiter.ErrTimeout] == 0)
	}
	for caller := range 64 {
		callers.Go(func() {
			for n := int64(1); goesOn(); n++ {
				own := int64(caller)<<32 + n
				ctx, cancel := context.WithCancel(context.Background())
				if caller%2 == 0 {
					time.AfterFunc(rand.N(300*time.Microsecond), cancel)
				}
				c := NewCall(OpTake, []limiter.Check{{Key: limiter.EncodeKey("k"), Weight: own}})
				err := b.Do(ctx, c, 50*time.Microsecond+rand.N(500*time.Microsecond))
				if err == nil {
					if got := c.Checks[0]; got.Weight != own || got.Result.Remaining != own {
						t.Errorf("a caller got the call of another: %d of %d", got.Result.Remaining, own)
					}
					c.Recycle()
				}
				assert.ErrorIf(t, errors.Is(err, context.Canceled) && caller%2 != 0,
					"a caller got the error of a client that left, and its own did not")
				cancel()
				mu.Lock()
				outcomes[err]++
				mu.Unlock()
			}
		})
	}
	callers.Wait()
	t.Log(outcomes)
	assert.ErrorIf(t, outcomes[nil] == 0 || outcomes[limiter.ErrTimeout] == 0,
		"outcomes %v, want answers and timeouts", outcomes)
	b.await(t, "the looks end", func() bool { return !b.expiry.IsSet() && len(b.Waiting) == 0 })
}

// TestWaiter_of_a_shorter_timeout has a caller leave on time though the next look was to be later.
func TestWaiter_of_a_shorter_timeout(t *testing.T) {
	g := newGate()
	defer close(g.release)
	ctx, leave := context.WithCancel(context.Background())
	errs := make(chan error, 2)
	g.request(ctx, time.Hour, func(err error) { errs <- err })
	<-g.started
	w := NewCall(OpTake, nil).awaitedBy(ctx, clock.Now().Add(time.Millisecond))
	g.Mu.Lock()
	g.expireBy(w.until)
	due := g.expiry.Due()
	assert.ErrorIf(t, due != w.until && clock.Now() < w.until, "looking at %v, want %v", due, w.until)
	g.Mu.Unlock()
	w.recycle()
	leave()
	err := <-errs
	assert.ErrorIf(t, !errors.Is(err, context.Canceled), "got %v of a call that was sent, want the client's leave", err)
}

// TestBatcher_alone has a call that its caller sends hang: its context ends on time, and says so.
func TestBatcher_alone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout = 100 * time.Millisecond
		began, took := time.Now(), time.Duration(0)
		b := &batcher{ready: 1, expired: clock.Now()}
		b.Send = func(ctx context.Context, calls []*Call) bool {
			deadline, bounded := ctx.Deadline()
			assert.ErrorIf(t, !bounded || deadline.Sub(began) != timeout || ctx.Err() != nil, "the deadline is %v after the start, %v", deadline.Sub(began), ctx.Err())
			<-ctx.Done()
			took, calls[0].Err = time.Since(began), ctx.Err()
			return false
		}
		c := NewCall(OpTake, []limiter.Check{{Key: limiter.EncodeKey("k")}})
		assert.Must(t, b.Do(t.Context(), c, timeout))
		assert.ErrorIf(t, !errors.Is(c.Err, context.DeadlineExceeded), "the call ended with %v", c.Err)
		assert.ErrorIf(t, took < timeout || took > timeout+expirySpacing, "it ended after %v", took)
	})
}

// TestBatcher_expireBy_after_a_look has no second look within a millisecond, however soon a call is due.
func TestBatcher_expireBy_after_a_look(t *testing.T) {
	var b batcher
	defer b.expiry.Stop()
	b.Mu.Lock()
	defer b.Mu.Unlock()
	b.expired = clock.Now()
	for _, due := range []time.Duration{time.Hour, time.Microsecond, 0} {
		b.expireBy(b.expired.Add(due))
	}
	if got := b.expiry.Due().Since(b.expired); got != expirySpacing && clock.Now().Since(b.expired) < expirySpacing {
		t.Errorf("the next look is %v after the last one, want %v", got, expirySpacing)
	}
}

// refundOf returns a call that refunds a unit of a check.
func refundOf(c limiter.Check) *Call {
	return NewChange([]limiter.Check{c}, limiter.Change{Units: -1})
}

// holdRefund has a batch with a refund of the key "k" not come back, and returns the refund's policy.
func (g *gate) holdRefund(t *testing.T) *limiter.Policy {
	t.Helper()
	p := storetest.DayPolicy(t, "held", limiter.GCRA, 10)
	back := refundOf(limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Weight: 1})
	back.detach(nil)
	assert.Must(t, g.enqueue(back))
	<-g.started
	return p
}

// TestBatcher_holds stalls a batch with a refund: the requests behind it leave nevertheless.
func TestBatcher_holds(t *testing.T) {
	g := newGate()
	g.Senders.Usual, g.Timeout = 0, 40*time.Millisecond
	p := g.holdRefund(t)
	for _, key := range []string{"k", "other"} {
		c := NewCall(OpTake, []limiter.Check{{Policy: p, Key: limiter.EncodeKey(key), Weight: 1}})
		assert.Must(t, g.enqueue(c))
	}
	for left := 2; left > 0; { // the other, and then the one that was held; both at once if this test was held up
		left -= <-g.started
	}
	close(g.release)
	g.await(t, "nothing is under way", func() bool { return len(g.Unsettled.Quotas)+len(g.Waiting)+g.Senders.Open == 0 })
}

// TestBatcher_fill_left_refund has a caller leave its refund while that waits in the queue.
func TestBatcher_fill_left_refund(t *testing.T) {
	b := batcher{Timeout: time.Second}
	back := refundOf(limiter.Check{Policy: storetest.DayPolicy(t, "left", limiter.GCRA, 10), Key: limiter.EncodeKey("k"), Weight: 1})
	b.Unsettled.add(back)
	b.Waiting = append(b.Waiting, back)
	left, sent := back.abandon()
	assert.FatalIf(t, !left || sent, "left is %v, sent is %v", left, sent)
	if calls := b.fill(nil); len(calls)+len(b.Waiting)+len(b.Unsettled.Quotas) > 0 {
		t.Errorf("%d calls leave, %d wait, %d quotas", len(calls), len(b.Waiting), len(b.Unsettled.Quotas))
	}
}

// TestBatcher_watch_held has the batch with a refund not come back, while further senders may open: the
// request behind it leaves at half of the timeout, and until then nothing tries to send it.
func TestBatcher_watch_held(t *testing.T) {
	for name, usual := range map[string]time.Duration{"stalled": 0, "not stalled": time.Hour} {
		t.Run(name, func(t *testing.T) {
			g := newGate()
			defer close(g.release)
			g.Senders.RoundTrip, g.Senders.Usual, g.Timeout = 2*time.Millisecond, usual, 20*time.Millisecond
			p := g.holdRefund(t)
			assert.Must(t, g.enqueue(NewCall(OpTake, []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k"), Weight: 1}})))
			g.awaitBatch(t) // of the request
			g.Mu.Lock()
			defer g.Mu.Unlock()
			tries := g.Unsettled.Batch
			assert.ErrorIf(t, tries > 20, "%d batches were filled, most of them empty", tries)
		})
	}
}

// TestBatcher_next_watch has a sender end because it is too soon for the postponed refund that it has put
// back. The batch in flight does not come back.
func TestBatcher_next_watch(t *testing.T) {
	const roundTrip = 500 * time.Millisecond
	postpone := func() (g *gate, calls []*Call) {
		g = newGate()
		t.Cleanup(func() { close(g.release) })
		g.Senders.RoundTrip = roundTrip
		g.Senders.Open = 2
		g.Senders.begin(&inflight{})
		p := storetest.DayPolicy(t, "postponed", limiter.GCRA, 10)
		postponed := refundOf(limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Weight: 1})
		g.Unsettled.add(postponed)
		g.Waiting = append(g.Waiting, postponed)
		calls = g.next(nil, &inflight{})
		return g, calls
	}
	for {
		began := time.Now()
		g, calls := postpone()
		if len(calls) == 0 {
			g.awaitBatch(t) // of the refund
			return
		}
		// On a machine that stands still for so long it was not too soon.
		assert.FatalIf(t, time.Since(began) < g.Senders.pacing(), "the refund left at once")
	}
}

// TestBatcher_fill fills batches with requests of many checks: a request above the bound leaves in
// the next batch, and one that is too large for any leaves alone.
func TestBatcher_fill(t *testing.T) {
	b := batcher{Timeout: time.Second}
	for _, checks := range []int{100, 28, 1, 1000, 1, 127, 1} {
		b.Waiting = append(b.Waiting, NewCall(OpTake, make([]limiter.Check, checks)))
	}
	var batches [][]int
	for len(b.Waiting) > 0 {
		var sizes []int
		for _, c := range b.fill(nil) {
			sizes = append(sizes, len(c.Checks))
		}
		batches = append(batches, sizes)
	}
	got, want := fmt.Sprint(batches), "[[100 28] [1] [1000] [1 127] [1]]"
	assert.ErrorIf(t, got != want, "batches of requests with so many checks: %s, want %s", got, want)
}
