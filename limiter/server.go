package limiter

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// server is one Redis that decides: the only one, or a Cluster's master of some slots. Each has its
// own batches and its own breaker, so that one that is slow or fails holds nobody else up.
type server struct {
	client  redis.UniversalClient
	batcher batcher
	breaker breaker
	failed  func() // called after every failure
}

// decide has a call decided. After nil its results are valid and it is the caller's to recycle;
// after an error it is gone.
func (s *server) decide(ctx context.Context, c *call, timeout time.Duration) error {
	allowed, probe := s.breaker.allow()
	if !allowed {
		c.recycle()
		return ErrOutage
	}
	sent := time.Now()
	err := s.settle(ctx, c, s.batcher.do(ctx, c, timeout))
	s.report(probe, sent, err)
	return err
}

// giveBack undoes a reserve, without waiting for it.
func (s *server) giveBack(slot uint16, checks []Check) {
	c := newCall(opGiveBack, checks)
	c.slot = slot
	for i := range checks {
		c.receipts = append(c.receipts, checks[i].receipt)
	}
	c.forget(nil)
	_ = s.batcher.enqueue(c) // where the queue is full the units drain by themselves
}

// settle ends a call that the batcher is through with: unless it was decided it is gone.
func (s *server) settle(ctx context.Context, c *call, err error) error {
	if err != nil || c.err == nil {
		return err
	}
	err = c.err
	c.recycle()
	if ctx.Err() != nil {
		return ctx.Err() // nobody waits for the decision that failed
	}
	return err
}

// report tells the breaker what became of a call. One whose caller went away says nothing of Redis, nor
// does one that failed alone.
func (s *server) report(probe bool, sent time.Time, err error) {
	switch {
	case err == nil:
		s.breaker.success(probe, sent)
	case errors.Is(err, ErrUndecided) && !failedAlone(err):
		s.breaker.failure(probe, err)
		s.failed()
	default:
		s.breaker.neither(probe)
	}
}

// outages counts the servers that fail now, and tells when the first begins and the last ends.
type outages struct {
	failing    atomic.Int32
	since      atomic.Int64 // unix nanoseconds
	onOutage   func(err error)
	onRecovery func(after time.Duration)
}

func (o *outages) begin(err error) {
	if o.failing.Add(1) == 1 {
		o.since.Store(time.Now().UnixNano())
		if o.onOutage != nil {
			o.onOutage(err)
		}
	}
}

func (o *outages) end() {
	if o.failing.Add(-1) == 0 && o.onRecovery != nil {
		o.onRecovery(time.Since(time.Unix(0, o.since.Load())))
	}
}
