package limiter

import (
	"context"
	"errors"
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

// Guard is a shared store with a local one behind it. It keeps requests from waiting for a shared
// store that fails, and from asking what is known.
type Guard struct {
	shared  *Redis // nil: the local store decides everything
	local   *Memory
	denied  *denyCache
	breaker breaker
}

// GuardOptions say how a [Guard] is to behave and whom it tells. The functions must not block; nil
// means that nobody listens.
type GuardOptions struct {
	// DenyAge is how long a denial by the shared store may be repeated without asking again; at
	// most [MaxDenyAge], 0 asks always.
	DenyAge time.Duration

	// OnOutage is called when the shared store begins to fail, with the first error.
	OnOutage func(err error)

	// OnRecovery is called when it decides again, with how long it did not.
	OnRecovery func(after time.Duration)
}

// ErrOutage is the error of requests that are not sent because the shared store fails.
var ErrOutage = &UndecidedError{Kind: "breaker", Err: errors.New("redis is failing; it is probed every second")}

// NewGuard puts a local store behind a shared one. Where there is no shared one (nil), the local
// store decides everything.
func NewGuard(shared *Redis, local *Memory, options GuardOptions) *Guard {
	g := &Guard{shared: shared, local: local, denied: newDenyCache(options.DenyAge)}
	var since time.Time
	g.breaker.now = time.Now
	g.breaker.onOpen = func(err error) {
		since = time.Now()
		if options.OnOutage != nil {
			options.OnOutage(err)
		}
	}
	g.breaker.onClose = func() {
		if options.OnRecovery != nil {
			options.OnRecovery(time.Since(since))
		}
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
	source, err := g.decideShared(ctx, checks, now)
	if err == nil || mode != FailLocal || !errors.Is(err, ErrUndecided) {
		return source, err
	}
	_, err = g.local.Decide(ctx, checks)
	return SourceFallback, err
}

// Reset forgets one share of a policy, here and in the shared store, and tells whether there was
// one. Other nodes may go on denying for the age of their deny caches.
func (g *Guard) Reset(ctx context.Context, p *Policy, key string) (bool, error) {
	found := g.local.Reset(p, key)
	if g.shared == nil {
		return found, nil
	}
	shared, err := g.shared.Reset(ctx, p, key)
	g.denied.forget(p.id, key)
	return found || shared, err
}

// Failing tells whether requests are kept from the shared store, and for how long at the least.
func (g *Guard) Failing() (bool, time.Duration) {
	if g.breaker.state.Load() == breakerClosed {
		return false, 0
	}
	return true, max(0, time.Until(time.Unix(0, g.breaker.reopens.Load())))
}

func (g *Guard) decideShared(ctx context.Context, checks []Check, sent time.Time) (Source, error) {
	allowed, probe := g.breaker.allow()
	if !allowed {
		return SourceRedis, ErrOutage
	}
	source, err := g.shared.Decide(ctx, checks)
	switch {
	case err == nil:
		g.breaker.success(probe, sent)
		g.denied.learn(checks, sent)
	case errors.Is(err, ErrUndecided):
		g.breaker.failure(probe, err)
	default:
		g.breaker.neither(probe)
	}
	return source, err
}
