package limiter

import (
	"context"
	"errors"
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
	copyAnswer(check, &own)
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

// CapacityIn returns the capacity that decisions of a source apply: that of the policy, or in an outage this
// process's fraction of it.
func (f *Failover) CapacityIn(p *Policy, source Source) int64 {
	if source == SourceFallback && f.isPartial() {
		return f.localShare(p).Capacity()
	}
	return p.Capacity()
}
