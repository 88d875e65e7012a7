package gate

import (
	"context"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storepool"
)

// notifyTakes emits the threshold events of takes that passed. A take that the response may refund has its events once
// the response lets it stay; an estimate once its cost is known; a look when it is charged.
func (l *Limiter) notifyTakes(made *Decision) {
	if !l.notifies {
		return
	}
	for i := range made.Checks {
		if c := &made.Checks[i]; !c.Refundable && c.Takes() {
			l.notifyTake(c, l.Rules.RuleOf(c), made.Source, made.DryRun)
		}
	}
}

// notifyTake emits the threshold events of a take that stays.
func (l *Limiter) notifyTake(c *limiter.Check, r *rule.Rule, s limiter.Source, dryRun bool) {
	if len(r.Notify) == 0 || !c.Result.Passes() || c.Result.Remaining == limiter.Unknown || !l.Listener.ListensForThresholds() {
		return
	}
	marks := l.reachedMarks(c, r, s)
	if len(marks) == 0 {
		return
	}
	check := *c // which the listener keeps
	if !l.Listener.Thresholds(Event{Check: &check, Source: s, DryRun: dryRun}, marks, quietTime(c)) {
		l.forgetMarks(c, marks)
	}
}

// notifyCost emits the threshold events of units that a settlement has charged.
func (l *Limiter) notifyCost(stores *storepool.Stores, passed *PendingCheck, units int64) {
	if len(passed.Rule.Notify) == 0 || units <= 0 || !l.Listener.ListensForThresholds() || !stores.Retain() {
		return
	}
	copied := *passed
	event := Event{Check: &copied.Check, Source: passed.Source, DryRun: passed.DryRun}
	if !l.Listener.ThresholdsLater(event, func() ([]rule.Fraction, time.Duration) { return l.settledMarks(stores, &copied, units) }) {
		stores.End()
	}
}

// settledMarks returns the marks that a check has reached by a settlement, and for how long they are quiet. A settlement has no
// answer, which is why the quota is read afterwards. What other requests took in between counts as charged; their own events come
// first. The use of the stores ends before listeners are waited for.
func (l *Limiter) settledMarks(stores *storepool.Stores, passed *PendingCheck, units int64) ([]rule.Fraction, time.Duration) {
	c := &passed.Check
	c.Weight, c.Peek = units, true
	var err error
	if passed.Source == limiter.SourceFallback {
		stores.PeekLocal(c)
	} else {
		_, err = stores.Peek(context.Background(), c)
	}
	stores.End()
	if err != nil {
		return nil, 0
	}
	return l.reachedMarks(c, passed.Rule, passed.Source), quietTime(c)
}

// reachedMarks returns the marks of a rule that a check has reached by its units, unless the marks had an event in this
// window. The check's result is that after the units.
func (l *Limiter) reachedMarks(c *limiter.Check, r *rule.Rule, s limiter.Source) (reached []rule.Fraction) {
	capacity := l.Stores.CapacityIn(c.Policy, s) // which asks no store
	for _, mark := range r.Notify {
		if reachesMark(c, mark, capacity) && l.Process.Thresholds.Pass(time.Now(), quietTime(c), markName(c, mark)...) {
			reached = append(reached, mark)
		}
	}
	return reached
}

// forgetMarks lets a later request emit the events of marks, which could not be emitted.
func (l *Limiter) forgetMarks(c *limiter.Check, marks []rule.Fraction) {
	for _, mark := range marks {
		l.Process.Thresholds.Forget(markName(c, mark)...)
	}
}

// markName names the event of a quota that reaches a mark.
func markName(c *limiter.Check, mark rule.Fraction) []string {
	return []string{c.Policy.ID, mark.String(), c.Key.String()}
}

// reachesMark reports whether a check has reached a fraction of the capacity by its units. The check's result is that
// after the units. A lease takes units ahead of the requests, so that the fraction may be reached between two requests:
// with a lease it is enough that the fraction is in use.
func reachesMark(c *limiter.Check, mark rule.Fraction, capacity int64) bool {
	used, at := capacity-c.Unused(), mark.Of(capacity)
	return used >= at && (used-c.Weight < at || c.Policy.LongestLease() > 0)
}

// quietTime returns for how long a mark of a quota has no further event: until the end of a fixed window, for the node
// timeout of running requests, otherwise for the length of a window.
func quietTime(c *limiter.Check) time.Duration {
	switch s := c.Policy.Settings; {
	case s.Algorithm == limiter.FixedWindow:
		return c.Result.ResetAfter
	case c.Policy.CountsRunning:
		return s.NodeTimeout
	default:
		return s.Window
	}
}
