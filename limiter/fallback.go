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

// Guard is a shared store with a local one behind it, for when it cannot decide. It keeps requests
// from asking what is known.
type Guard struct {
	shared      *Redis // nil: the local store decides everything
	local       *Memory
	denied      *denyCache
	onAsk       func(ctx context.Context) func(err error)
	onUndecided func(err error)
	part        float64 // of each policy that is enforced here in an outage
}

// GuardOptions say how a [Guard] is to behave.
type GuardOptions struct {
	// DenyAge is how long a denial by the shared store may be repeated without asking again; at
	// most [MaxDenyAge], 0 asks always.
	DenyAge time.Duration

	// LocalShare is the part of each limit that this process enforces while the shared store cannot
	// decide, above 0 and below 1: 1/n for each of n nodes keeps the limit as a whole. 0 and 1 are
	// the whole limit.
	LocalShare float64

	// OnAsk is called before the shared store is asked to decide a request, and what it returns, unless
	// that is nil, after the answer. Neither must block. Nil: nobody listens.
	OnAsk func(ctx context.Context) func(err error)

	// OnUndecided is called for every request that the shared store could not decide. It must not
	// block. Nil: nobody listens.
	OnUndecided func(err error)
}

// NewGuard puts a local store behind a shared one. Where there is no shared one (nil), the local
// store decides everything.
func NewGuard(shared *Redis, local *Memory, options GuardOptions) *Guard {
	g := &Guard{shared: shared, local: local, denied: newDenyCache(options.DenyAge), part: options.LocalShare, onAsk: options.OnAsk, onUndecided: options.OnUndecided}
	if g.denied != nil && shared != nil {
		r := &renewal{shared: shared, denied: g.denied, span: g.denied.maxAge / 20}
		g.denied.renew = r.add
	}
	return g
}

// Decide decides the checks on the shared store. Where that cannot, the mode says what happens:
// with [FailLocal] the local store decides and the source is [SourceFallback]; otherwise the error
// wraps [ErrUndecided]. A caller that went away gets the error of its context.
func (g *Guard) Decide(ctx context.Context, checks []Check, mode FailMode) (Source, error) {
	if g.shared == nil {
		return g.local.Decide(ctx, checks)
	}
	now := time.Now()
	if g.denied.deny(checks, now) {
		return SourceDenyCache, nil
	}
	source, err := g.ask(ctx, checks)
	switch {
	case err == nil:
		g.denied.learn(checks, now)
		if mode == FailLocal {
			g.remember(checks)
		}
		return source, nil
	case !errors.Is(err, ErrUndecided):
		return source, err
	}
	return g.Without(ctx, checks, mode, err)
}

// Without does what [Guard.Decide] does where the shared store cannot decide, for the given reason, and
// does not ask it. The reason wraps [ErrUndecided].
func (g *Guard) Without(ctx context.Context, checks []Check, mode FailMode, reason error) (Source, error) {
	if g.shared == nil {
		return g.local.Decide(ctx, checks)
	}
	if g.onUndecided != nil {
		g.onUndecided(reason)
	}
	if mode != FailLocal {
		return SourceRedis, reason
	}
	return SourceFallback, g.decideLocally(ctx, checks)
}

// ask has the shared store decide.
func (g *Guard) ask(ctx context.Context, checks []Check) (Source, error) {
	var answered func(err error)
	if g.onAsk != nil {
		answered = g.onAsk(ctx)
	}
	source, err := g.shared.Decide(ctx, checks)
	if answered != nil {
		answered(err)
	}
	return source, err
}

// remember keeps what the shared store said, for when it cannot.
func (g *Guard) remember(checks []Check) {
	for i := range checks {
		g.local.remember(&checks[i])
	}
}

// decideLocally decides by the part of the limits that is this process's.
func (g *Guard) decideLocally(ctx context.Context, checks []Check) error {
	if !g.isPartial() {
		_, err := g.local.Decide(ctx, checks)
		return err
	}
	own := slices.Clone(checks)
	for i := range own {
		g.reduce(&own[i])
	}
	_, err := g.local.Decide(ctx, own)
	for i := range own {
		checks[i].Result, checks[i].receipt = own[i].Result, own[i].receipt
	}
	return err
}

// GiveBack undoes what checks with Reserve were charged by a decision of that source in which all
// passed. It does not wait, and must be called at most once. What it cannot undo drains by itself.
func (g *Guard) GiveBack(checks []Check, source Source) {
	if source == SourceRedis {
		g.shared.GiveBack(checks)
		return
	}
	for i := range checks {
		c := checks[i]
		if source == SourceFallback && g.isPartial() {
			g.reduce(&c)
		}
		g.local.GiveBack([]Check{c})
	}
}

// Charge charges units for what a request turned out to cost after a decision of that source: without
// asking whether there is room, so that later requests pay what this one overdrew. It does not wait.
// While Redis fails the debt is this process's. Weights are at most 2^52.
func (g *Guard) Charge(checks []Check, source Source) {
	for i := range checks {
		c := checks[i]
		c.Weight = min(c.Weight, MaxCharge)
		if c.Weight <= 0 || (source == SourceRedis && g.shared.charge(&c)) {
			continue
		}
		if source != SourceMemory && g.isPartial() {
			c.Policy = g.partOf(c.Policy)
		}
		g.local.Charge([]Check{c})
	}
}

// Failing tells whether requests are kept from a part of the shared store, and for how long at the
// least.
func (g *Guard) Failing() (bool, time.Duration) {
	if g.shared == nil {
		return false, 0
	}
	return g.shared.routes.failing()
}
