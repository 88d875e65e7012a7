package limiter

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

// Peek returns what a request of the check's weight would get, without charging it: a denial, or the
// quota as it stands. Where the shared store does not answer, the error wraps [ErrUndecided] and the
// result is that of this process's own state.
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

// PeekIn peeks as [Failover.Peek] does, for requests: where the shared store cannot decide, the mode applies
// as in [Failover.DecideIn]. With [FailLocal] the result is that of this process's own state and the source
// [SourceFallback]; otherwise the error wraps [ErrUndecided]. A store that fails already is not queried.
func (f *Failover) PeekIn(ctx context.Context, mode FailMode, check *Check) (Source, error) {
	if f.shared == nil {
		f.local.Peek(check)
		return SourceMemory, nil
	}
	err := f.shared.peekUnlessOpen(ctx, check)
	switch {
	case err == nil:
		return SourceRedis, nil
	case !errors.Is(err, ErrUndecided) || mode != FailLocal:
		return SourceRedis, err
	}
	return f.PeekLocal(check), nil
}

// PeekLocal does what [Failover.Peek] does where the shared store does not answer, without a query.
func (f *Failover) PeekLocal(check *Check) Source {
	own := *check
	f.scaleDown(&own)
	f.local.Peek(&own)
	check.answeredBy(&own)
	return SourceFallback
}

// Probe reports why the shared store does not decide requests of such checks now, nil where it does.
// A peek only reads, and may be answered where a decision is not. Probe charges nothing of the
// checks.
func (f *Failover) Probe(ctx context.Context, checks []Check) error {
	if f.shared == nil || len(checks) == 0 {
		return nil
	}
	return f.shared.Probe(ctx, checks)
}

// HasLocalState reports whether this process has a state of a key by itself: from its own decisions,
// or from the shared store's last answer. For a key without one [Failover.PeekLocal] finds nothing
// used.
func (f *Failover) HasLocalState(p *Policy, key EncodedKey) bool {
	s := f.local.lock(p, key.text)
	defer s.mu.Unlock()
	_, banned := s.bans[key.text]
	return banned || s.get(p, key.text, f.local.clock()) != (state{})
}

// Answered reports whether an error is Redis's answer, rather than the lack of one.
func Answered(err error) bool {
	var reply redis.Error
	var caught failure
	return errors.As(err, &reply) || errors.As(err, &caught)
}

// Peek returns what a request of the check's weight would get, without charging it.
func (m *Memory) Peek(c *Check) {
	peek := *c
	m.on(&peek, (*shard).peek)
	c.answeredBy(&peek)
}

// peek answers a check without charging it: with a denial, or the quota as it stands.
func (s *shard) peek(c *Check, now int64) {
	held := s.get(c.Policy, c.Key.text, now)
	c.answer(evaluate(held, now, c), now)
	if !c.Peek && c.Result.Passes() {
		delay, peek := c.Result.Delay, *c
		peek.Peek = true
		c.answer(evaluate(held, now, &peek), now)
		c.Result.Delay = delay
	}
	if c.Policy.ban != nil {
		s.refuseBanned(c, now)
	}
}

// Peek returns what a request of the check's weight would get, without charging it. Unlike decisions
// it is sent even while the breaker is open, to see whether Redis still fails.
func (r *Redis) Peek(ctx context.Context, check *Check) error {
	if !r.hold() {
		return errClosed
	}
	defer r.uses.release()
	return r.peekBy(check, func(n *node, c *call, _ []Check) error {
		return n.outcome(ctx, c, n.batcher.do(ctx, c, r.timeout))
	})
}

// peekUnlessOpen peeks at a quota, unless the breaker of its node is open.
func (r *Redis) peekUnlessOpen(ctx context.Context, check *Check) error {
	return r.peekWithin(ctx, check, r.timeout)
}

// peekWithin does so, and waits for so long at most.
func (r *Redis) peekWithin(ctx context.Context, check *Check, timeout time.Duration) error {
	if !r.uses.acquire() {
		return errClosed
	}
	defer r.uses.release()
	return r.peekBy(check, func(n *node, c *call, checks []Check) error {
		return n.decide(ctx, c, checks, timeout)
	})
}

// peekBy peeks at a quota by a function that sends the call.
func (r *Redis) peekBy(check *Check, send func(n *node, c *call, checks []Check) error) error {
	n, slot := r.nodeOf(check.Key)
	checks := []Check{*check}
	c := newCall(opPeek, checks)
	c.slot = slot
	if err := send(n, c, checks); err != nil {
		return err
	}
	c.take(checks)
	check.answeredBy(&checks[0])
	return nil
}

// CapacityIn returns the capacity that decisions of a source apply: that of the policy, or in an outage this
// process's fraction of it.
func (f *Failover) CapacityIn(p *Policy, source Source) int64 {
	if source == SourceFallback && f.isPartial() {
		return f.localShare(p).Capacity()
	}
	return p.Capacity()
}
