package limiter

import (
	"context"
	"errors"
	"slices"
	"time"
)

// FailMode says what becomes of a request when Redis cannot decide.
type FailMode string

// The fail modes.
const (
	FailLocal  FailMode = "local"  // this process decides by the same policies
	FailOpen   FailMode = "open"   // the request is let through
	FailClosed FailMode = "closed" // the request is refused
)

// FailModes lists them, the default first.
func FailModes() []FailMode { return []FailMode{FailLocal, FailOpen, FailClosed} }

// Failover is a shared store with a local one behind it, for when it cannot decide. It keeps requests
// from asking what is known.
type Failover struct {
	shared        *Redis // nil: the local store decides everything
	local         *Memory
	denied        *denyCache
	onAsk         func(ctx context.Context) func(err error)
	onUndecided   func(err error)
	localFraction float64 // of each policy that is enforced here in an outage
}

// FailoverOptions say how a [Failover] is to behave.
type FailoverOptions struct {
	// DenyAge is how long a denial by the shared store may be repeated without asking again; at
	// most [MaxDenyAge], 0 asks always.
	DenyAge time.Duration

	// LocalFraction is the part of each limit that this process enforces while the shared store cannot
	// decide, above 0 and below 1: 1/n for each of n nodes keeps the limit as a whole. 0 and 1 are
	// the whole limit.
	LocalFraction float64

	// OnAsk is called before the shared store is asked to decide a request, and what it returns, unless
	// that is nil, after the answer. Neither must block. Nil: nobody listens.
	OnAsk func(ctx context.Context) func(err error)

	// OnUndecided is called for every request that the shared store could not decide. It must not
	// block. Nil: nobody listens.
	OnUndecided func(err error)
}

// NewFailover puts a local store behind a shared one. Where there is no shared one (nil), the local
// store decides everything.
func NewFailover(shared *Redis, local *Memory, options FailoverOptions) *Failover {
	g := &Failover{shared: shared, local: local, denied: newDenyCache(options.DenyAge), localFraction: options.LocalFraction, onAsk: options.OnAsk, onUndecided: options.OnUndecided}
	if g.denied != nil && shared != nil {
		r := &denyRefresher{shared: shared, denied: g.denied, span: g.denied.maxAge / 20}
		g.denied.refresh = r.add
	}
	return g
}

// Decide decides the checks on the shared store. Where that cannot, the mode says what happens:
// with [FailLocal] the local store decides and the source is [SourceFallback]; otherwise the error
// wraps [ErrUndecided]. A caller that went away gets the error of its context.
func (f *Failover) Decide(ctx context.Context, checks []Check, mode FailMode) (Source, error) {
	if f.shared == nil {
		return f.local.Decide(ctx, checks)
	}
	now := time.Now()
	if f.denied.deny(checks, now) {
		return SourceDenyCache, nil
	}
	source, err := f.decideShared(ctx, checks)
	switch {
	case err == nil:
		f.denied.learn(checks, now)
		if mode == FailLocal {
			f.remember(checks)
		}
		return source, nil
	case !errors.Is(err, ErrUndecided):
		return source, err
	}
	return f.Fallback(ctx, checks, mode, err)
}

// Fallback does what [Failover.Decide] does where the shared store cannot decide, for the given reason, and
// does not ask it. The reason wraps [ErrUndecided].
func (f *Failover) Fallback(ctx context.Context, checks []Check, mode FailMode, reason error) (Source, error) {
	if f.shared == nil {
		return f.local.Decide(ctx, checks)
	}
	if f.onUndecided != nil {
		f.onUndecided(reason)
	}
	if mode != FailLocal {
		return SourceRedis, reason
	}
	return SourceFallback, f.decideLocally(ctx, checks)
}

// decideShared has the shared store decide.
func (f *Failover) decideShared(ctx context.Context, checks []Check) (Source, error) {
	var answered func(err error)
	if f.onAsk != nil {
		answered = f.onAsk(ctx)
	}
	source, err := f.shared.Decide(ctx, checks)
	if answered != nil {
		answered(err)
	}
	return source, err
}

// remember keeps what the shared store said, for when it cannot.
func (f *Failover) remember(checks []Check) {
	for i := range checks {
		f.local.remember(&checks[i])
	}
}

// decideLocally decides by the part of the limits that is this process's.
func (f *Failover) decideLocally(ctx context.Context, checks []Check) error {
	if !f.isPartial() {
		_, err := f.local.Decide(ctx, checks)
		return err
	}
	own := slices.Clone(checks)
	for i := range own {
		f.scaleDown(&own[i])
	}
	_, err := f.local.Decide(ctx, own)
	for i := range own {
		checks[i].Result, checks[i].receipt = own[i].Result, own[i].receipt
	}
	return err
}

// Refund undoes what checks with Reserve were charged by a decision of that source in which all
// passed. It does not wait, and must be called at most once. What it cannot undo drains by itself.
func (f *Failover) Refund(checks []Check, source Source) {
	if source == SourceRedis {
		f.shared.Refund(checks)
		return
	}
	for i := range checks {
		c := checks[i]
		if source == SourceFallback && f.isPartial() {
			f.scaleDown(&c)
		}
		f.local.Refund([]Check{c})
	}
}

// Charge charges units for what a request turned out to cost after a decision of that source: without
// asking whether there is room, so that later requests pay what this one overdrew. It does not wait.
// While Redis fails the debt is this process's. Weights are at most 2^52.
func (f *Failover) Charge(checks []Check, source Source) {
	for i := range checks {
		c := checks[i]
		c.Weight = min(c.Weight, MaxCharge)
		if c.Weight <= 0 || (source == SourceRedis && f.shared.chargeAsync(&c)) {
			continue
		}
		if source != SourceMemory && f.isPartial() {
			c.Policy = f.localPolicy(c.Policy)
		}
		f.local.Charge([]Check{c})
	}
}

// Failing tells whether requests are kept from a part of the shared store, and for how long at the
// least.
func (f *Failover) Failing() (bool, time.Duration) {
	if f.shared == nil {
		return false, 0
	}
	return f.shared.topology.failing()
}
