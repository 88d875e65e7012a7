// Package failover is a store in Redis with a store of this process behind it. It decides which part answers a
// request: a remembered denial, a lease, Redis, or this process in an outage; and what Redis is charged afterwards.
// It may import internal/limiter, kernel, lease, memory, redis, waiting and clock.
package failover

import (
	"context"
	"errors"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/kernel"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/lease"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/memory"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redis"
)

// Store is a shared store with a local one behind it, for when the shared one cannot decide. Its
// deny cache repeats denials without a query.
type Store struct {
	shared        *redis.Store // nil: the local store decides everything
	local         *memory.Store
	denied        *cache
	onAsk         func(ctx context.Context) func(err error)
	onUndecided   func(err error)
	localFraction float64 // of each limit that this process enforces in an outage
	ledger        *ledger // of outages; nil: they are forgiven
	leases        *lease.Table
	awaitsRefunds bool
	unsettled     unsettled
}

// MaxDenyAge is the longest that a denial may be repeated. A reset or a failover elsewhere takes effect within it.
const MaxDenyAge = time.Second

// Behavior says how a [Store] is to behave.
type Behavior struct {
	// DenyAge is how long a denial by the shared store may be repeated without a query; at most
	// [MaxDenyAge], 0 turns that off.
	DenyAge time.Duration

	// LocalFraction is the fraction of each limit that this process enforces while the shared store
	// cannot decide, above 0 and below 1: 1/n for each of n nodes keeps the limit as a whole. 0 and
	// 1 are the whole limit.
	LocalFraction float64

	// ForgiveOutages disables repayment. By default the requests that this process admitted while the shared
	// store could not decide are charged there when it decides again, as far as that leaves a quota within its
	// capacity.
	ForgiveOutages bool

	// AwaitsRefunds says that the caller ends every check with Refundable that has passed by [Store.Settle]. A
	// denied check that misses no more units than this node may still refund has a RetryAfter of a second at
	// most. Default: RetryAfter reckons with no refund.
	AwaitsRefunds bool

	// OnRepaid is called after such a charge, with the policy's name and the units. It must not
	// block. May be nil.
	OnRepaid func(policy string, units int64)

	// OnLeaseEnd is called when it is known what became of units of a lease ([limiter.Settings.Lease]), with the
	// policy's name. It must not block. May be nil.
	OnLeaseEnd func(policy string, fate limiter.LeaseFate, units int64)

	// OnAsk is called before the shared store decides a request, and the function that it returns,
	// unless that is nil, after the answer. Neither must block. May be nil.
	OnAsk func(ctx context.Context) func(err error)

	// OnUndecided is called for every request that the shared store could not decide. It must not
	// block. May be nil.
	OnUndecided func(err error)
}

// New puts a local store behind a shared one. Without a shared one (nil) the local store
// decides everything.
func New(shared *redis.Store, local *memory.Store, behavior Behavior) *Store {
	f := &Store{
		shared: shared, local: local, denied: newCache(min(behavior.DenyAge, MaxDenyAge)), localFraction: behavior.LocalFraction,
		onAsk: behavior.OnAsk, onUndecided: behavior.OnUndecided, awaitsRefunds: behavior.AwaitsRefunds,
	}
	if shared != nil {
		f.leases = lease.NewTable()
		f.leases.Ask, f.leases.GiveBack, f.leases.Ended = f.askAhead, f.giveBack, behavior.OnLeaseEnd
		f.leases.After = f.endLater
	}
	if shared != nil && !behavior.ForgiveOutages {
		f.ledger = newLedger(shared, local, behavior.OnRepaid)
	}
	f.denied.startSweeps()
	if f.denied != nil && shared != nil {
		r := &denyRefresher{shared: shared, denied: f.denied, local: local, span: f.denied.MaxAge / 20}
		r.task.Run, f.denied.Refresh = r.refresh, r.add
	}
	return f
}

// Decide implements [limiter.Store]. If the shared store cannot decide, the local one decides, and the source is
// [limiter.SourceFallback].
func (f *Store) Decide(ctx context.Context, checks []limiter.Check) (limiter.Source, error) {
	return f.DecideIn(ctx, limiter.FailLocal, checks)
}

// DecideIn decides the checks on the shared store. If that fails, the mode applies: with [limiter.FailLocal] the local store
// decides and the source is [limiter.SourceFallback]; otherwise the error wraps [limiter.ErrUndecided], and the caller
// lets the request through or refuses it. If the context ends first, DecideIn returns the context's error. That says
// nothing about Redis: give contexts more time than the client's timeout.
func (f *Store) DecideIn(ctx context.Context, mode limiter.FailMode, checks []limiter.Check) (limiter.Source, error) {
	if err := limiter.Prepare(checks); err != nil {
		return limiter.SourceRedis, err
	}
	if f.shared == nil {
		return f.decideHere(checks)
	}
	now := clock.Now()
	for i := range checks {
		if checks[i].Policy.Lease > 0 {
			return f.decideByLeases(ctx, mode, checks, now)
		}
	}
	return f.decideShared(ctx, mode, checks, nil, now)
}

// needs is what a decision needs beside the store's answer, by the policies of its checks.
type needs struct {
	running     bool // a policy counts running requests
	bans        bool // a policy bans
	refunds     bool // a policy refunds units, and who waits for them is told so
	looks       bool // a check looks
	hasFollowUp bool // any of these but running: a decision of a store is followed by [Store.afterDecision]
}

// needsOf returns what the decision of some checks needs.
func (f *Store) needsOf(checks []limiter.Check) (n needs) {
	for i := range checks {
		r := checks[i].Policy
		n.running = n.running || r.CountsRunning
		n.bans = n.bans || r.Ban != nil
		n.looks = n.looks || checks[i].Look
		n.refunds = n.refunds || f.awaitsRefunds && (r.Refunds || checks[i].Refundable)
	}
	n.hasFollowUp = n.bans || n.looks || n.refunds
	return n
}

// decideHere decides in this process, without a shared store.
func (f *Store) decideHere(checks []limiter.Check) (limiter.Source, error) {
	n := f.needsOf(checks)
	if n.looks && f.unsettled.beginLooks(checks).denies {
		return limiter.SourceMemory, nil
	}
	if n.refunds {
		f.awaitRefunds(checks)
	}
	f.local.DecideNow(checks)
	if n.hasFollowUp {
		f.afterDecision(checks, n, limiter.SourceMemory)
	}
	return limiter.SourceMemory, nil
}

// decideShared decides on the shared store, unless a remembered denial or this process's own running requests deny
// the request, and otherwise by the mode. The key, unless it is nil, is the busy one of the only check, for which units
// may be leased.
func (f *Store) decideShared(
	ctx context.Context, mode limiter.FailMode, checks []limiter.Check, k *lease.BusyKey, now clock.Moment,
) (limiter.Source, error) {
	n := f.needsOf(checks)
	if source := f.refuse(mode, checks, n, now); source != "" {
		return source, nil
	}
	if f.ledger != nil && f.ledger.size.Load() > 0 {
		f.ledger.repayAhead(checks)
	}
	var answered func(err error)
	if f.onAsk != nil {
		answered = f.onAsk(ctx)
	}
	leased, err := int64(0), error(nil)
	if k != nil {
		leased, err = f.askForLease(ctx, checks, k)
	} else {
		err = f.shared.DecideWithin(ctx, checks)
	}
	if answered != nil {
		answered(err)
	}
	return f.conclude(mode, checks, n, leased, err, now)
}

// refuse denies what a remembered denial, or what runs or looks in this process denies, without a query, and returns
// which of them; empty: none. In an outage [limiter.FailOpen] lets more requests run.
func (f *Store) refuse(mode limiter.FailMode, checks []limiter.Check, n needs, now clock.Moment) limiter.Source {
	if n.looks {
		f.unsettled.lend(checks)
	}
	if f.denyRemembered(checks, now) {
		return limiter.SourceDenyCache
	}
	if n.running && denyFull(f.local, checks).denies {
		if failing, _ := f.Failing(); !failing || mode != limiter.FailOpen {
			return limiter.SourceMemory
		}
	}
	if n.looks && f.unsettled.beginLooks(checks).denies {
		return limiter.SourceMemory
	}
	if n.refunds {
		f.awaitRefunds(checks)
	}
	return ""
}

// Remembered denies what a remembered denial denies, without a query, and reports whether one does. The denial is a
// decision of the source [limiter.SourceDenyCache]; without one nothing has been decided.
func (f *Store) Remembered(checks []limiter.Check) bool {
	if f.denied == nil || f.shared == nil || limiter.Prepare(checks) != nil {
		return false
	}
	f.unsettled.lend(checks)
	return f.denyRemembered(checks, clock.Now())
}

// denyRemembered denies what a remembered denial denies. The units that remain of other quotas are unknown.
func (f *Store) denyRemembered(checks []limiter.Check, now clock.Moment) bool {
	for i := range checks {
		checks[i].Result = limiter.Result{Remaining: limiter.Unknown} // which it stays for those that nothing denies
	}
	return f.denied != nil && f.denied.deny(checks, now).denies
}

// denyFull denies the checks if this process alone runs as many units as one of them allows. Requests that began before a
// reload to another Redis count here, and are unknown there. Requests with policies that ban are left to the store, which
// counts their denials.
func denyFull(local *memory.Store, checks []limiter.Check) (full localDenial) {
	for i := range checks {
		c := &checks[i]
		if c.Policy.Ban != nil {
			return localDenial{}
		}
		if local.RunsAll(c) {
			hint := limiter.Duration(kernel.RunningHint)
			full.deny(c, limiter.Result{RetryAfter: hint, ResetAfter: hint})
		}
	}
	return full
}

// conclude makes the shared store's answer the decision, or decides by the mode if that could not decide.
func (f *Store) conclude(
	mode limiter.FailMode, checks []limiter.Check, n needs, leased int64, err error, asked clock.Moment,
) (limiter.Source, error) {
	if err != nil {
		if !errors.Is(err, limiter.ErrUndecided) {
			endLooks(checks)
			return limiter.SourceRedis, err
		}
		return f.Fallback(mode, checks, err)
	}
	if f.denied != nil && !limiter.Allowed(checks) {
		f.denied.learn(checks, asked)
	}
	if n.hasFollowUp {
		f.afterDecision(checks, n, limiter.SourceRedis)
	}
	if n.running {
		f.local.StartRunning(checks)
	}
	if mode == limiter.FailLocal {
		for i := range checks {
			f.local.RememberLease(&checks[i], leased) // for an outage, in which leased units are used
		}
	}
	return limiter.SourceRedis, nil
}

// Fallback decides by the mode without a query, as [Store.DecideIn] does after the shared store has failed for the given
// reason. The reason wraps [limiter.ErrUndecided].
func (f *Store) Fallback(mode limiter.FailMode, checks []limiter.Check, reason error) (limiter.Source, error) {
	endLooks(checks)
	limiter.ForgetDecision(checks)
	if f.shared == nil {
		return f.decideHere(checks)
	}
	n := f.needsOf(checks)
	if n.refunds {
		f.awaitRefunds(checks)
	}
	if f.onUndecided != nil {
		f.onUndecided(reason)
	}
	if mode == limiter.FailOpen {
		f.letRun(checks)
	}
	if mode != limiter.FailLocal {
		return limiter.SourceRedis, reason
	}
	if n.looks && f.unsettled.beginLooks(checks).denies {
		return limiter.SourceFallback, nil
	}
	f.decideInOutage(checks, reason)
	if n.hasFollowUp {
		f.afterDecision(checks, n, limiter.SourceFallback)
	}
	return limiter.SourceFallback, nil
}

// letRun counts a request that is let through without a decision as running. A request that weighs more than the limit
// counts as much as the limit: Redis would not have let it pass, and no weight is to fill the counts of all nodes.
func (f *Store) letRun(checks []limiter.Check) {
	for i := range checks {
		if c := &checks[i]; c.Policy.CountsRunning && !c.Peek {
			c.State.RunningUnits = int32(min(limiter.Units(c), c.Policy.Capacity()))
		}
	}
	f.local.StartRunning(checks)
	f.shared.LetRun(checks)
}

// decideInOutage decides in this process, and puts what the checks took into the ledger.
func (f *Store) decideInOutage(checks []limiter.Check, reason error) {
	var space [4]memory.LastSeen
	seen := space[:0]
	for i := range checks {
		seen = append(seen, f.ledger.lastSeen(&checks[i])) // before the decision takes it over
	}
	f.decideLocally(checks)
	if !limiter.Allowed(checks) {
		return
	}
	f.shared.LetRun(checks)
	for i := range checks {
		f.ledger.admit(&checks[i], seen[i], reason)
	}
}

// Looking returns the units of looks that are in flight on this node in a policy: see [limiter.Check].InFlight.
func (f *Store) Looking(p *limiter.Policy) int64 { return f.unsettled.looksIn(p) }

// LookingAt returns the units of looks of a check's quota that are in flight on this node.
func (f *Store) LookingAt(c *limiter.Check) int64 { return f.unsettled.at(c).looking }

// effectiveSource returns the store that decided for a source: the only one there is, or the one that leased units.
func (f *Store) effectiveSource(source limiter.Source) limiter.Source {
	switch {
	case f.shared == nil:
		return limiter.SourceMemory
	case source == limiter.SourceLease:
		return limiter.SourceRedis // whose units these are
	}
	return source
}

// Failing reports whether requests are kept from a node of the shared store, and for how long at
// least.
func (f *Store) Failing() (bool, time.Duration) {
	if f.shared == nil {
		return false, 0
	}
	return f.shared.Topology.Failing()
}

// retain keeps the shared store open until [Store.release], for a refund or a charge after a decision. It reports whether
// the store is open; release must follow only if so.
func (f *Store) retain() bool { return f.shared == nil || f.shared.Uses.Acquire() }

// release ends what [Store.retain] began.
func (f *Store) release() {
	if f.shared != nil {
		f.shared.Uses.Release()
	}
}

// afterDecision does what follows on a decision of a store about checks that ban, look or refund.
func (f *Store) afterDecision(checks []limiter.Check, n needs, source limiter.Source) {
	if n.looks && !limiter.Allowed(checks) {
		endLooks(checks)
	}
	if n.bans {
		f.confirmTaken(checks, source)
	}
	if n.refunds {
		f.shortenRetryAfter(checks)
	}
}

// confirmTaken counts, for bans, the units of checks that passed and cannot be refunded. A policy that bans and refunds
// counts only denials behind units that stay.
func (f *Store) confirmTaken(checks []limiter.Check, source limiter.Source) {
	if !limiter.Allowed(checks) {
		return
	}
	for i := range checks {
		c := &checks[i]
		if c.Policy.Ban != nil && c.Policy.Refunds && !c.Refundable && c.Takes() {
			f.settle(c, limiter.Change{Stays: limiter.Units(c)}, source)
		}
	}
}
