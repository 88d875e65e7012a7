package redis

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// This file says whether Redis would decide a request now, for who sends none: commands, the page, and overrides that wait
// for the end of an outage. What a command of theirs is answered does not show that: a Redis that is full, a replica,
// or one that forbids scripts answers it all the same.

// Probe reports why Redis does not decide a request of the checks now, nil where it does. A request that is denied
// needs no write, and a Redis that refuses these denies it. For any other it takes
// units of a reserved key under the policies, in their slots, and charges nothing of the checks.
// Where the breaker is open nothing is sent, and the error is that of the last probe.
func (r *Store) Probe(ctx context.Context, checks []limiter.Check) error {
	if !r.hold() {
		return limiter.ErrClosed
	}
	defer r.Uses.Release()
	groups := []*SlotGroup{{checks: slices.Clone(checks)}}
	if r.Slotted.Load() {
		groups = r.GroupBySlot(checks)
	}
	if denied, err := r.peekUnlessFailing(ctx, groups); denied || err != nil {
		return err
	}
	for _, g := range groups {
		if err := r.decides(ctx, r.Topology.To(g.slot), attemptOf(OpTake, g.slot, g.checks, nil)); err != nil {
			return err
		}
	}
	return nil
}

// ProbeSlot is as [Store.Probe], for any client of the policies in a slot. Without policies it probes by one of its own.
func (r *Store) ProbeSlot(ctx context.Context, slot uint16, policies ...*limiter.Policy) error {
	if !r.hold() {
		return limiter.ErrClosed
	}
	defer r.Uses.Release()
	return r.decides(ctx, r.Topology.To(slot), &attempt{Op: OpTake, Slot: slot, Policies: policies})
}

// ProbeName does what [Store.ProbeSlot] does for the slot of a name in Redis.
func (r *Store) ProbeName(ctx context.Context, name string) error {
	return r.ProbeSlot(ctx, SlotOfName(name))
}

// ProbeEach is as [Store.Probe], on every master in use, for any client of the policies. It reports besides how many
// masters decide.
func (r *Store) ProbeEach(ctx context.Context, policies []*limiter.Policy) (deciding int, err error) {
	if !r.hold() {
		return 0, limiter.ErrClosed
	}
	defer r.Uses.Release()
	a := attempt{Op: OpTake, Slot: NewKeyWriter(r.KeyFormat).SlotOf(ProbeKey), Policies: onePerScript(policies)}
	nodes := r.Topology.Nodes()
	failures := make([]error, len(nodes))
	var probing sync.WaitGroup
	for i, n := range nodes {
		probing.Go(func() {
			own := a
			own.Slot, _ = r.Topology.slotAt(n, a.Slot)
			failures[i] = r.decides(ctx, n, &own)
		})
	}
	probing.Wait()
	for _, failed := range failures {
		if err = cmp.Or(err, failed); failed == nil {
			deciding++
		}
	}
	return deciding, err
}

// decides returns why a node does not decide, nil where it does: its breaker is closed, the last operation of a request
// has not failed a moment ago, and it does now what an attempt needs.
func (r *Store) decides(ctx context.Context, n *Node, a *attempt) error {
	if err := whyFailing(n); err != nil {
		return err
	}
	return r.probe(ctx, n, a)
}

// whyFailing returns why requests of this process do not get decisions of a node, nil as far as is known without asking.
func whyFailing(n *Node) error {
	if n.Breaker.Open() {
		if cause := n.Cause.Load(); cause != nil && cause.Err != nil {
			return cause.Err
		}
		return limiter.ErrOutage
	}
	return n.Breaker.lastFailure()
}

// peekUnlessFailing reports whether Redis denies one of the groups, or returns why a node of theirs does not answer.
func (r *Store) peekUnlessFailing(ctx context.Context, groups []*SlotGroup) (denied bool, err error) {
	for _, g := range groups {
		n := r.Topology.To(g.slot)
		if err := whyFailing(n); err != nil {
			return false, err
		}
		if err := r.try(ctx, n, OpPeek, g.slot, g.checks); err != nil {
			return false, err
		}
		denied = denied || !limiter.Allowed(g.checks)
	}
	return denied, nil
}

// onePerScript returns policies that need, together, all the commands of the given ones.
func onePerScript(policies []*limiter.Policy) []*limiter.Policy {
	var kept []*limiter.Policy
	var seen KernelSet
	for _, p := range policies {
		if own := FragmentsOf(p); own&^seen != 0 {
			seen |= own
			kept = append(kept, p)
		}
	}
	return kept
}
