package failover

import (
	"context"
	"errors"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// Peek returns what a request of the check's weight would get, without charging it: a denial, or what is left of the
// quota. If the shared store does not answer, the error wraps [limiter.ErrUndecided] and the result is that of this
// process's own state.
func (f *Store) Peek(ctx context.Context, check *limiter.Check) (limiter.Source, error) {
	if f.shared == nil {
		f.local.Peek(check)
		return limiter.SourceMemory, nil
	}
	err := f.shared.Peek(ctx, check)
	switch {
	case err == nil:
		return limiter.SourceRedis, nil
	case errors.Is(err, limiter.ErrUndecided):
		f.PeekLocal(check)
	}
	return limiter.SourceFallback, err
}

// PeekDecided is as [Store.Peek], and fails too if the shared store answers, but does not decide requests of the key.
func (f *Store) PeekDecided(ctx context.Context, check *limiter.Check) (limiter.Source, error) {
	if err := f.ProbeKey(ctx, check.Policy, check.Key); err != nil {
		return f.PeekLocal(check), err
	}
	return f.Peek(ctx, check)
}

// PeekIn peeks for a request: if the shared store cannot decide, the mode applies as in [Store.DecideIn]. With [limiter.FailLocal] the result is that of this process's own state and the source
// [limiter.SourceFallback]; otherwise the error wraps [limiter.ErrUndecided]. A store that fails already is not queried.
func (f *Store) PeekIn(ctx context.Context, mode limiter.FailMode, check *limiter.Check) (limiter.Source, error) {
	if f.shared == nil {
		f.local.Peek(check)
		return limiter.SourceMemory, nil
	}
	err := f.shared.PeekUnlessOpen(ctx, check)
	switch {
	case err == nil:
		return limiter.SourceRedis, nil
	case !errors.Is(err, limiter.ErrUndecided) || mode != limiter.FailLocal:
		return limiter.SourceRedis, err
	}
	return f.PeekLocal(check), nil
}

// PeekLocal peeks at this process's own state, as [Store.Peek] does if the shared store does not answer.
func (f *Store) PeekLocal(check *limiter.Check) limiter.Source {
	own := *check
	f.scaleDown(&own)
	f.local.Peek(&own)
	limiter.CopyAnswer(check, &own)
	return limiter.SourceFallback
}

// Probe reports why the shared store does not decide a request of the checks now; nil if it does. A peek would not show
// that, since it only reads. Probe charges nothing of the checks.
func (f *Store) Probe(ctx context.Context, checks []limiter.Check) error {
	if f.shared == nil || len(checks) == 0 {
		return nil
	}
	return f.shared.Probe(ctx, checks)
}

// ProbeKey reports why the shared store does not decide requests of a key in a policy now; nil: it does, or there is none.
func (f *Store) ProbeKey(ctx context.Context, p *limiter.Policy, key limiter.EncodedKey) error {
	if f.shared == nil {
		return nil
	}
	return f.shared.ProbeSlot(ctx, f.shared.SlotOf(key), p)
}

// ProbeEach reports why a part of the shared store does not decide requests of policies now, nil if all of it does, and
// whether any part does.
func (f *Store) ProbeEach(ctx context.Context, policies []*limiter.Policy) (some bool, err error) {
	if f.shared == nil {
		return true, nil
	}
	deciding, err := f.shared.ProbeEach(ctx, policies)
	return deciding > 0, err
}

// CapacityIn returns the capacity that decisions of a source apply: that of the policy, or in an outage this
// process's fraction of it.
func (f *Store) CapacityIn(p *limiter.Policy, source limiter.Source) int64 {
	if source == limiter.SourceFallback && f.isPartial() {
		return f.localShare(p).Capacity()
	}
	return p.Capacity()
}
