package redisratelimit

import (
	"context"
	"slices"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/quotaheader"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

// notifyTakes emits the events of takes that passed. A take that the response may refund has its event when
// it stays.
func (h *Handler) notifyTakes(checks []limiter.Check, s limiter.Source, dryRun bool) {
	if !h.notifies {
		return
	}
	for i := range checks {
		if c := &checks[i]; !c.Reserve {
			h.notifyTake(c, h.rules.RuleOf(c), s, dryRun)
		}
	}
}

// notifyTake emits the events of a take that stays.
func (h *Handler) notifyTake(c *limiter.Check, r *rule.Rule, s limiter.Source, dryRun bool) {
	if len(r.Notify) == 0 || !c.Result.Passes() || c.Result.Remaining == limiter.Unknown || !h.listensForThresholds() {
		return
	}
	if h.crosses(c, r, s) {
		check := *c
		h.events.inBackground(func() { h.emitThresholds(&check, r, s, dryRun) })
	}
}

// notifyCharge emits the events of a charge. A charge has no answer, so that the quota is read after it, in
// the background. What other requests took between the two counts as charged; their own events come first.
func (h *Handler) notifyCharge(charge *deferredCharge) {
	r, c, s := charge.rule, charge.check, charge.source
	store := h.app.store
	if len(r.Notify) == 0 || c.Weight <= 0 || !h.listensForThresholds() || !store.Retain() {
		return
	}
	dryRun := charge.dryRun
	started := h.events.inBackground(func() {
		defer store.Release()
		looked := c
		looked.Peek = true
		if s == limiter.SourceFallback {
			store.PeekLocal(&looked)
		} else if _, err := store.Peek(context.Background(), &looked); err != nil {
			return
		}
		c = looked
		h.emitThresholds(&c, r, s, dryRun)
	})
	if !started {
		store.Release()
	}
}

// listensForThresholds reports whether an event would reach a listener.
func (h *Handler) listensForThresholds() bool { return h.events.events.ShouldEmit(eventThreshold) }

// crosses reports whether the units of a check, with the result after them, have reached a mark of a rule.
func (h *Handler) crosses(c *limiter.Check, r *rule.Rule, s limiter.Source) bool {
	capacity := h.app.store.CapacityIn(c.Policy, s)
	return slices.ContainsFunc(r.Notify, func(mark rule.Fraction) bool { return crossesMark(c, mark, capacity) })
}

// crossesMark reports whether the units of a check, with the result after them, have reached a fraction of
// the capacity.
func crossesMark(c *limiter.Check, mark rule.Fraction, capacity int64) bool {
	used, at := capacity-c.Unused(), mark.Of(capacity)
	return used >= at && used-c.Weight < at
}

// emitThresholds emits the events of the marks that a check has reached, unless they had one in this window.
func (h *Handler) emitThresholds(c *limiter.Check, r *rule.Rule, s limiter.Source, dryRun bool) {
	capacity := h.app.store.CapacityIn(c.Policy, s)
	for _, mark := range r.Notify {
		if !crossesMark(c, mark, capacity) || !lastThresholds.Pass(c.Policy.ID(), c.Key.String(), mark.Percent(), time.Now(), quietTime(c)) {
			continue
		}
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

// quietTime is how long a mark of a quota has no further event: until the end of a fixed window, otherwise
// for a window's length.
func quietTime(c *limiter.Check) time.Duration {
	if s := c.Policy.Settings(); s.Algorithm != limiter.FixedWindow {
		return s.Window
	}
	return c.Result.ResetAfter
}
