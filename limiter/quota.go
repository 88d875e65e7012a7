package limiter

import (
	"context"
	"errors"
)

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

// CapacityIn returns the capacity that decisions of a source apply: that of the policy, or in an outage this
// process's fraction of it.
func (f *Failover) CapacityIn(p *Policy, source Source) int64 {
	if source == SourceFallback && f.isPartial() {
		return f.localPolicy(p).Capacity()
	}
	return p.Capacity()
}
