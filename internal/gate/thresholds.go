package gate

import (
	"context"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storepool"
)

// notifyTakes emits the events of takes that passed. A take that the response may refund has its event when
// it stays, an estimate when its cost is known.
func (l *Limiter) notifyTakes(q *CheckGroup) {
	if !l.notifies {
		return
	}
	for i := range q.Checks {
		if c := &q.Checks[i]; !c.Refundable {
			l.notifyTake(c, l.Rules.RuleOf(c), q.Source, q.DryRun)
		}
	}
}

// notifyTake emits the events of a take that stays.
func (l *Limiter) notifyTake(c *limiter.Check, r *rule.Rule, s limiter.Source, dryRun bool) {
	if len(r.Notify) == 0 || !c.Result.Passes() || c.Result.Remaining == limiter.Unknown || !l.Events.ListensForThresholds() {
		return
	}
	if marks := l.reachedMarks(c, r, s); len(marks) > 0 {
		check := *c
		if !l.Events.InBackground(func() { l.emitThresholds(&check, marks, s, dryRun) }) {
			l.forgetMarks(c, marks)
		}
	}
}

// notifyCost emits the events of units that a response has settled.
func (l *Limiter) notifyCost(stores *storepool.Stores, passed *PendingCheck, units int64) {
	if len(passed.Rule.Notify) == 0 || units <= 0 || !l.Events.ListensForThresholds() || !stores.Retain() {
		return
	}
	if copied := *passed; !l.Events.InBackground(func() { l.notifySettled(stores, &copied, units) }) {
		stores.End()
	}
}

// notifySettled emits them in the background. A settlement has no answer, so that the quota is read after it. What
// other requests took between the two counts as charged; their own events come first. It ends a use of the stores
// before it waits for listeners.
func (l *Limiter) notifySettled(stores *storepool.Stores, passed *PendingCheck, units int64) {
	c := &passed.Check
	c.Weight, c.Peek = units, true
	var err error
	if passed.Source == limiter.SourceFallback {
		stores.PeekLocal(c)
	} else {
		_, err = stores.Peek(context.Background(), c)
	}
	stores.End()
	if err == nil {
		l.emitThresholds(c, l.reachedMarks(c, passed.Rule, passed.Source), passed.Source, passed.DryRun)
	}
}

// reachedMarks returns the marks of a rule that the units of a check, with the result after them, have reached,
// unless they had an event in this window.
func (l *Limiter) reachedMarks(c *limiter.Check, r *rule.Rule, s limiter.Source) (reached []rule.Fraction) {
	capacity := l.Stores.CapacityIn(c.Policy, s) // which asks no store
	for _, mark := range r.Notify {
		if reachesMark(c, mark, capacity) && l.Process.Thresholds.Pass(time.Now(), quietTime(c), markName(c, mark)...) {
			reached = append(reached, mark)
		}
	}
	return reached
}

// forgetMarks lets a later request emit what could not be emitted.
func (l *Limiter) forgetMarks(c *limiter.Check, marks []rule.Fraction) {
	for _, mark := range marks {
		l.Process.Thresholds.Forget(markName(c, mark)...)
	}
}

// markName names the event of a quota that reaches a mark.
func markName(c *limiter.Check, mark rule.Fraction) []string {
	return []string{c.Policy.ID(), mark.String(), c.Key.String()}
}

// reachesMark reports whether the units of a check, with the result after them, have reached a fraction of the
// capacity. Of a policy that leases, units are taken ahead, so that no request of any node may find itself to be
// the one that reaches it: there the fraction need only be in use.
func reachesMark(c *limiter.Check, mark rule.Fraction, capacity int64) bool {
	used, at := capacity-c.Unused(), mark.Of(capacity)
	return used >= at && (used-c.Weight < at || c.Policy.LongestLease() > 0)
}

// emitThresholds emits the events of marks that a check has reached.
func (l *Limiter) emitThresholds(c *limiter.Check, marks []rule.Fraction, s limiter.Source, dryRun bool) {
	for _, mark := range marks {
		l.Events.Threshold(c, mark, s, dryRun)
	}
}

// quietTime is how long a mark of a quota has no further event: until the end of a fixed window, for the node
// timeout of a count of running requests, otherwise for a window's length.
func quietTime(c *limiter.Check) time.Duration {
	switch s := c.Policy.Settings(); {
	case s.Algorithm == limiter.FixedWindow:
		return c.Result.ResetAfter
	case c.Policy.CountsRunning():
		return s.NodeTimeout
	default:
		return s.Window
	}
}
