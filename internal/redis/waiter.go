package redis

import (
	"context"
	"sync"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// This file ends the waits of callers whose time is up or whose client has left. A caller waits for its
// answer alone: with a timer and its context beside the answer a wait takes twice as long, and one more
// allocation. The batcher looks at its calls instead, while some are waited for.

const (
	// expirySpan is the longest from one look to the next, and so for how long a client that has left may go
	// unnoticed.
	expirySpan = 10 * time.Millisecond

	// expirySpacing is the shortest, by which a caller may leave late. A Redis that hangs would otherwise have
	// a look at thousands of calls whenever the time of one of them is up.
	expirySpacing = time.Millisecond
)

// waiter is a goroutine that waits for a call. It is apart from the call, which may have another owner as
// soon as the waiter has left it.
type waiter struct {
	ctx   context.Context //nolint:containedctx // of the request that waits
	until clock.Moment
	woken chan error // of capacity 1; nil: the call was answered
}

// waiterPool holds waiters whose channel is empty.
var waiterPool = sync.Pool{New: func() any { return &waiter{woken: make(chan error, 1)} }}

// awaitedBy makes a waiter the call's, before it is queued.
func (c *Call) awaitedBy(ctx context.Context, until clock.Moment) *waiter {
	w := waiterPool.Get().(*waiter) //nolint:forcetypeassert,errcheck // the pool holds nothing else
	w.ctx, w.until = ctx, until
	c.waiter = w
	return w
}

// recycle ends the waiter, which no call may have.
func (w *waiter) recycle() {
	w.ctx = nil
	waiterPool.Put(w)
}

// wait waits for the answer to a call that was queued. After an error the call is gone.
func (w *waiter) wait() error {
	err := <-w.woken
	w.recycle()
	return err
}

// lone is the context of a call that its caller sends. The looks end it, as they end waits: a timer for each call
// would cost as much as the queue does otherwise.
type lone struct {
	context.Context //nolint:containedctx // gives no values
	deadline        time.Time
	ended           chan struct{}
}

// Deadline implements [context.Context].
func (l *lone) Deadline() (deadline time.Time, ok bool) { return l.deadline, true }

// Done implements [context.Context].
func (l *lone) Done() <-chan struct{} { return l.ended }

// Err implements [context.Context].
func (l *lone) Err() error {
	select {
	case <-l.ended:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// expireBy starts the timer of [batcher.expire], so that a call which may wait until a moment ends on time. The lock
// must be held.
func (b *batcher) expireBy(until clock.Moment) {
	if b.expiry.IsDueBy(until) {
		return
	}
	if b.expiry.Run == nil {
		b.expiry.Run = b.expire
	}
	current := clock.Now()
	b.expiry.StartBy(max(min(until, current+clock.Moment(expirySpan)), b.expired+clock.Moment(expirySpacing)), current)
}

// expire has the waiters leave whose time is up or whose client has left.
func (b *batcher) expire() {
	b.Mu.Lock()
	defer b.Mu.Unlock()
	current := clock.Now()
	b.expired = current
	if len(b.Waiting) > 0 {
		b.expireAmong(b.Waiting, current)
	}
	for _, f := range b.Senders.inflights {
		b.expireAmong(f.calls, current)
		if f.alone == nil {
			continue
		}
		if until := clock.MomentOf(f.alone.deadline); current < until {
			b.expireBy(until)
		} else {
			close(f.alone.ended)
			f.alone = nil
		}
	}
}

// expireAmong ends the waits among some calls, and starts the timer for those that are still waited for. The lock must be
// held.
func (b *batcher) expireAmong(calls []*Call, current clock.Moment) {
	for _, c := range calls {
		w := c.waiter
		if w == nil {
			continue
		}
		gone := w.ctx.Err()
		if gone == nil && current < w.until {
			b.expireBy(w.until)
			continue
		}
		abandoned, sent := c.abandon()
		switch {
		case !abandoned: // its answer is on the way
		case gone != nil:
			w.woken <- gone
		case sent:
			w.woken <- limiter.ErrTimeout
		default:
			w.woken <- limiter.ErrUnsent
		}
	}
}
