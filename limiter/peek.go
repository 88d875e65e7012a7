package limiter

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"
)

// This file holds what only asks.

// Peek tells what a request of the check's weight would get, without charging it: its result is that
// of a denial, or of a look at the share as it stands. Where the shared store cannot be asked, the
// error wraps [ErrUndecided] and the result is that of the share which this process knows.
func (f *Failover) Peek(ctx context.Context, check *Check) (Source, error) {
	if f.shared == nil {
		f.local.Peek(check)
		return SourceMemory, nil
	}
	err := f.shared.Peek(ctx, check)
	switch {
	case err == nil:
		return SourceRedis, nil
	case errors.Is(err, ErrUndecided):
		f.PeekLocal(check)
	}
	return SourceFallback, err
}

// PeekLocal does what [Failover.Peek] does where the shared store cannot be asked, and does not ask it.
func (f *Failover) PeekLocal(check *Check) Source {
	own := *check
	if f.isPartial() {
		f.scaleDown(&own)
	}
	f.local.Peek(&own)
	check.Result = own.Result
	return SourceFallback
}

// Probe reports why the shared store does not decide requests of such checks now, nil where it does: a
// look only reads, and may be answered where a decision is not. It charges nothing of the checks.
func (f *Failover) Probe(ctx context.Context, checks []Check) error {
	if f.shared == nil || len(checks) == 0 {
		return nil
	}
	return f.shared.Probe(ctx, checks)
}

// HasLocalState tells whether this process has anything of a share by itself: by what it decided, or by what
// it saw the shared store decide. Of one that it does not know, [Failover.Peek] finds nothing used.
func (f *Failover) HasLocalState(p *Policy, key string) bool {
	s := f.local.lock(p, key)
	defer s.mu.Unlock()
	return s.get(p, key, f.local.clock()) != (state{})
}

// Answered tells whether an error is what Redis said, rather than that it could not be asked.
func Answered(err error) bool {
	var reply redis.Error
	var caught failure
	return errors.As(err, &reply) || errors.As(err, &caught)
}

// Peek tells what a request of the check's weight would get, without charging it.
func (m *Memory) Peek(c *Check) {
	checks := []Check{*c}
	m.each(checks, (*shard).peek)
	c.Result = checks[0].Result
}

// peek answers a check without charging it: with a denial, or the share as it stands.
func (s *shard) peek(c *Check, now int64) {
	held := s.get(c.Policy, c.Key, now)
	c.answer(evaluate(held, now, c), now)
	if c.Weight > 0 && c.Result.Passes() {
		delay, peek := c.Result.Delay, *c
		peek.Weight = 0
		c.answer(evaluate(held, now, &peek), now)
		c.Result.Delay = delay
	}
}

// Peek tells what a request of the check's weight would get, without charging it. Unlike decisions it
// is sent even where Redis was found failing, to see whether it still is.
func (r *Redis) Peek(ctx context.Context, check *Check) error {
	if r.closed.Load() {
		return errClosed
	}
	w := r.writer()
	s, slot := r.nodeOf(w, check)
	r.writers.Put(w)
	checks := []Check{*check}
	c := newCall(opPeek, checks)
	c.slot = slot
	if err := s.settle(ctx, c, s.batcher.do(ctx, c, r.timeout)); err != nil {
		return err
	}
	check.Result = c.checks[0].Result
	c.recycle()
	return nil
}
