package redisratelimit

import (
	"context"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/quotaheader"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

// notifyTakes emits the events of takes that passed. A take that the response may refund has its event when
// it stays, an estimate when its cost is known.
func (h *Handler) notifyTakes(checks []limiter.Check, s limiter.Source, dryRun bool) {
	if !h.notifies {
		return
	}
	for i := range checks {
		if c := &checks[i]; !c.Refundable {
			h.notifyTake(c, h.rules.RuleOf(c), s, dryRun)
		}
	}
}

// notifyTake emits the events of a take that stays.
func (h *Handler) notifyTake(c *limiter.Check, r *rule.Rule, s limiter.Source, dryRun bool) {
	if len(r.Notify) == 0 || !c.Result.Passes() || c.Result.Remaining == limiter.Unknown || !h.listensForThresholds() {
		return
	}
	if marks := h.reachedMarks(c, r, s); len(marks) > 0 {
		check := *c
		if !h.events.inBackground(func() { h.emitThresholds(&check, marks, s, dryRun) }) {
			forgetMarks(c, marks)
		}
	}
}

// notifyCost emits the events of units that a response has settled. That has no answer, so that the quota is
// read after it, in the background. What other requests took between the two counts as charged; their own
// events come first.
func (h *Handler) notifyCost(passed *passedCheck, units int64) {
	r, c, s := passed.rule, passed.check, passed.source
	c.Weight = units
	stores := passed.stores
	if len(r.Notify) == 0 || c.Weight <= 0 || !h.listensForThresholds() || !stores.Share() {
		return
	}
	dryRun := passed.dryRun
	started := h.events.inBackground(func() {
		defer stores.End()
		looked := c
		looked.Peek = true
		if s == limiter.SourceFallback {
			stores.PeekLocal(&looked)
		} else if _, err := stores.Peek(context.Background(), &looked); err != nil {
			return
		}
		c = looked
		h.emitThresholds(&c, h.reachedMarks(&c, r, s), s, dryRun)
	})
	if !started {
		stores.End()
	}
}

// listensForThresholds reports whether an event would reach a listener.
func (h *Handler) listensForThresholds() bool { return h.events.events.ShouldEmit(eventThreshold) }

// reachedMarks returns the marks of a rule that the units of a check, with the result after them, have reached,
// unless they had an event in this window.
func (h *Handler) reachedMarks(c *limiter.Check, r *rule.Rule, s limiter.Source) (reached []rule.Fraction) {
	capacity := h.app.opened.CapacityIn(c.Policy, s) // which asks no store
	for _, mark := range r.Notify {
		if reachesMark(c, mark, capacity) && lastThresholds.Pass(c.Policy.ID(), c.Key.String(), mark.Percent(), time.Now(), quietTime(c)) {
			reached = append(reached, mark)
		}
	}
	return reached
}

// forgetMarks lets a later request emit what could not be emitted.
func forgetMarks(c *limiter.Check, marks []rule.Fraction) {
	for _, mark := range marks {
		lastThresholds.Forget(c.Policy.ID(), c.Key.String(), mark.Percent())
	}
}

// reachesMark reports whether the units of a check, with the result after them, have reached a fraction of the
// capacity. Of a policy that leases, units are taken ahead, so that no request of any node may find itself to be
// the one that reaches it: there the fraction need only be in use.
func reachesMark(c *limiter.Check, mark rule.Fraction, capacity int64) bool {
	used, at := capacity-c.Unused(), mark.Of(capacity)
	return used >= at && (used-c.Weight < at || c.Policy.LongestLease() > 0)
}

// emitThresholds emits the events of marks that a check has reached.
func (h *Handler) emitThresholds(c *limiter.Check, marks []rule.Fraction, s limiter.Source, dryRun bool) {
	for _, mark := range marks {
		data := map[string]any{
			"policy": c.Policy.Name(), "limit": c.Policy.Capacity(), "threshold": mark.Percent(), "remaining": c.Result.Remaining,
			"reset_after": quotaheader.Seconds(c.Result.ResetAfter), "source": string(s), "dry_run": dryRun,
		}
		if h.LogKeys {
			data["key"] = c.Key.String()
		}
		h.events.events.Emit(h.events.ctx, eventThreshold, data)
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
