package limiter

import (
	"context"
	"errors"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
)

// slotGroup is the checks of a request that lie in one slot of a Cluster. A request with several
// groups cannot be decided by one script run: all groups are peeked at, then charged, and refunded
// if another request won the race between.
type slotGroup struct {
	slot    uint16
	indices []int   // of its checks, among those of the request
	checks  []Check // with their answers, where decided
	decided bool    // by the last operation
	node    *node   // of the last operation
	call    *call   // in flight, or nil
	waiter  *waiter // for it
}

// decideCrossSlot decides the groups of a request, all or nothing. Checks of running requests that came
// too late have them decided once more.
func (r *Redis) decideCrossSlot(ctx context.Context, checks []Check, groups []*slotGroup) error {
	deadline := time.Now().Add(r.timeout)
	err := r.decideGroups(ctx, checks, groups, deadline)
	if errors.Is(err, errLate) && time.Now().Before(deadline) {
		err = r.decideGroups(ctx, checks, groups, deadline)
	}
	return err
}

func (r *Redis) decideGroups(ctx context.Context, checks []Check, groups []*slotGroup, deadline time.Time) error {
	if err := r.runGroups(ctx, groups, opPeek, deadline); err != nil {
		return err
	}
	if keep(checks, groups); !Allowed(checks) {
		return r.offend(ctx, checks, deadline)
	}
	err := r.runGroups(ctx, groups, opTakeRefundable, deadline)
	if err == nil && allPass(groups) {
		keep(checks, groups)
		return nil
	}
	var denied []*slotGroup
	for _, g := range groups {
		switch {
		case !g.decided:
		case Allowed(g.checks):
			g.node.refund(g.slot, g.checks)
			for i := range g.checks {
				endReservation(&g.checks[i], true)
			}
			r.EndRunning(g.checks)
		default:
			denied = append(denied, g)
		}
	}
	keep(checks, denied)
	return err
}

// groupBySlot sorts the checks by slot.
func (r *Redis) groupBySlot(checks []Check) []*slotGroup {
	w := r.writer()
	defer r.writers.Put(w)
	var groups []*slotGroup
	bySlot := map[uint16]*slotGroup{}
	for i := range checks {
		slot := w.keys.slotOf(checks[i].Key.String())
		g := bySlot[slot]
		if g == nil {
			g = &slotGroup{slot: slot}
			bySlot[slot] = g
			groups = append(groups, g)
		}
		g.indices = append(g.indices, i)
		g.checks = append(g.checks, checks[i])
	}
	return groups
}

// keep copies the answers of the groups to the request's checks.
func keep(checks []Check, groups []*slotGroup) {
	for _, g := range groups {
		for i, at := range g.indices {
			checks[at] = g.checks[i]
		}
	}
}

// allPass reports whether every check of every group passed.
func allPass(groups []*slotGroup) bool {
	for _, g := range groups {
		if !Allowed(g.checks) {
			return false
		}
	}
	return true
}

// runGroups runs one operation on all groups at once and waits for every answer, or until the
// deadline. Its error joins those of the groups that were not decided.
func (r *Redis) runGroups(ctx context.Context, groups []*slotGroup, op operation, deadline time.Time) error {
	sent := clock.Now()
	var failed error
	for _, g := range groups {
		failed = errors.Join(failed, r.enqueueGroup(ctx, g, op, clock.MomentOf(deadline)))
	}
	for _, g := range groups {
		if g.call != nil {
			err := g.await(ctx)
			g.node.report(op, g.slot, g.checks, sent, err)
			err = r.endTakes(g.checks, err)
			failed = errors.Join(failed, err)
		}
	}
	return failed
}

// enqueueGroup queues an operation on a group, at the node that has its slot now. Without an error
// the group has a call to wait for.
func (r *Redis) enqueueGroup(ctx context.Context, g *slotGroup, op operation, deadline clock.Moment) error {
	g.node, g.decided = r.topology.to(g.slot), false
	if g.node.breaker.open() {
		return ErrOutage
	}
	if op == opTakeRefundable {
		r.running.begin(g.checks)
	}
	c := newCall(op, g.checks)
	c.slot = g.slot
	w := c.awaitedBy(ctx, deadline)
	if err := g.node.batcher.enqueue(c); err != nil {
		w.recycle()
		g.node.report(op, g.slot, g.checks, clock.Now(), err)
		return r.endTakes(g.checks, err)
	}
	g.call, g.waiter = c, w
	return nil
}

// await takes the answer of the group's call.
func (g *slotGroup) await(ctx context.Context) error {
	c := g.call
	g.call = nil
	err := g.node.outcome(ctx, c, g.waiter.wait())
	if err != nil {
		return err
	}
	g.decided = true
	c.take(g.checks)
	return nil
}
