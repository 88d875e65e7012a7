package redis

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// SlotGroup is the checks of a request that lie in one slot of a Cluster. A request with several
// groups cannot be decided by one script run: all groups are peeked at, then charged, and refunded
// if another request won the race between.
type SlotGroup struct {
	slot    uint16
	indices []int           // of its checks, among those of the request
	checks  []limiter.Check // with their answers, where decided
	decided bool            // by the last operation
	Node    *Node           // of the last operation
	call    *Call           // in flight, or nil
	waiter  *waiter         // for it
}

// decideCrossSlot decides the groups of a request, all or nothing. Checks of running requests that came
// too late have them decided once more.
func (r *Store) decideCrossSlot(ctx context.Context, checks []limiter.Check, groups []*SlotGroup) error {
	deadline := time.Now().Add(r.Timeout)
	err := r.decideGroups(ctx, checks, groups, deadline)
	if errors.Is(err, ErrLate) && time.Now().Before(deadline) {
		err = r.decideGroups(ctx, checks, groups, deadline)
	}
	return err
}

func (r *Store) decideGroups(ctx context.Context, checks []limiter.Check, groups []*SlotGroup, deadline time.Time) error {
	if err := r.runGroups(ctx, groups, OpPeek, deadline); err != nil {
		return err
	}
	if keep(checks, groups); !limiter.Allowed(checks) {
		return r.offend(ctx, checks, deadline)
	}
	taking := slices.DeleteFunc(slices.Clone(groups), func(g *SlotGroup) bool { return !g.takes() })
	err := r.runGroups(ctx, taking, OpTake|WithReceipt, deadline)
	if err == nil && allPass(taking) {
		keep(checks, taking)
		return nil
	}
	var denied []*SlotGroup
	for _, g := range taking {
		switch {
		case !g.decided:
		case limiter.Allowed(g.checks):
			g.Node.Refund(g.slot, g.checks)
			for i := range g.checks {
				limiter.EndReservation(&g.checks[i])
			}
			r.EndRunning(g.checks)
		default:
			denied = append(denied, g)
		}
	}
	keep(checks, denied)
	return err
}

// GroupBySlot sorts the checks by slot.
func (r *Store) GroupBySlot(checks []limiter.Check) []*SlotGroup {
	w := r.writer()
	defer r.Writers.Put(w)
	var groups []*SlotGroup
	bySlot := map[uint16]*SlotGroup{}
	for i := range checks {
		slot := w.Keys.SlotOf(checks[i].Key.String())
		g := bySlot[slot]
		if g == nil {
			g = &SlotGroup{slot: slot}
			bySlot[slot] = g
			groups = append(groups, g)
		}
		g.indices = append(g.indices, i)
		g.checks = append(g.checks, checks[i])
	}
	return groups
}

// keep copies the answers of the groups to the request's checks.
func keep(checks []limiter.Check, groups []*SlotGroup) {
	for _, g := range groups {
		for i, at := range g.indices {
			checks[at] = g.checks[i]
		}
	}
}

// takes reports whether a check of the group takes units. Looks and peeks are answered by the first question.
func (g *SlotGroup) takes() bool {
	return slices.ContainsFunc(g.checks, func(c limiter.Check) bool { return c.Takes() })
}

// allPass reports whether every check of every group passed.
func allPass(groups []*SlotGroup) bool {
	for _, g := range groups {
		if !limiter.Allowed(g.checks) {
			return false
		}
	}
	return true
}

// runGroups runs one operation on all groups at once and waits for every answer, or until the
// deadline. Its error joins those of the groups that were not decided.
func (r *Store) runGroups(ctx context.Context, groups []*SlotGroup, op Operation, deadline time.Time) error {
	sent := clock.Now()
	var failed error
	for _, g := range groups {
		failed = errors.Join(failed, r.EnqueueGroup(ctx, g, op, clock.MomentOf(deadline)))
	}
	for _, g := range groups {
		if g.call != nil {
			err := g.await(ctx)
			g.Node.Report(op, g.slot, g.checks, sent, err)
			err = r.EndTakes(g.checks, err)
			failed = errors.Join(failed, err)
		}
	}
	return failed
}

// EnqueueGroup queues an operation on a group, at the node that has its slot now. Without an error
// the group has a call to wait for.
func (r *Store) EnqueueGroup(ctx context.Context, g *SlotGroup, op Operation, deadline clock.Moment) error {
	g.Node, g.decided = r.Topology.To(g.slot), false
	if g.Node.Breaker.Open() {
		return limiter.ErrOutage
	}
	if op == OpTake|WithReceipt {
		r.Running.Begin(g.checks, nil)
	}
	c := NewCall(op, g.checks)
	c.Slot = g.slot
	w := c.awaitedBy(ctx, deadline)
	if err := g.Node.Batcher.enqueue(c); err != nil {
		w.recycle()
		c.Recycle()
		g.Node.Report(op, g.slot, g.checks, clock.Now(), err)
		return r.EndTakes(g.checks, err)
	}
	g.call, g.waiter = c, w
	return nil
}

// await takes the answer of the group's call.
func (g *SlotGroup) await(ctx context.Context) error {
	c := g.call
	g.call = nil
	err := g.Node.undecided(ctx, c, g.waiter.wait())
	if err != nil {
		return err
	}
	g.decided = true
	copy(g.checks, c.Checks)
	c.Recycle()
	return nil
}

// offend counts the denials of a request whose checks lie in several slots of a Cluster and were only
// peeked at, unless one of its clients is banned already. One that is banned by it gets the ban as its
// answer.
func (r *Store) offend(ctx context.Context, checks []limiter.Check, deadline time.Time) error {
	var denied []limiter.Check
	var indices []int
	for i := range checks {
		c := &checks[i]
		if c.Result.Banned {
			return nil
		}
		if c.Policy.Ban != nil && c.Result.RetryAfter > 0 && !c.Result.ForOthers {
			denied, indices = append(denied, *c), append(indices, i)
		}
	}
	if len(denied) == 0 {
		return nil
	}
	groups := r.GroupBySlot(denied)
	err := r.runGroups(ctx, groups, OpPeek|Counted, deadline)
	for _, g := range groups {
		for i, at := range g.indices {
			if g.decided && !g.checks[i].Result.Passes() {
				limiter.CopyAnswer(&checks[indices[at]], &g.checks[i])
			}
		}
	}
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return nil // a denial stays one, counted or not
}
