package redisratelimit

import (
	"fmt"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/quotaheader"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
)

// maxEmitting is how many events may be on their way at a time. Listeners that are slower than
// denials come miss some; no request waits for listeners.
const maxEmitting = 32

// eventEmitter emits the events of a handler.
type eventEmitter struct {
	events   *caddyevents.App
	ctx      caddy.Context
	withKeys bool // in data
	emitting chan struct{}
}

// newEventEmitter returns the event emitter of a handler.
func newEventEmitter(ctx caddy.Context, withKeys bool) (*eventEmitter, error) {
	module, err := ctx.App("events")
	if err != nil {
		return nil, fmt.Errorf("getting the events app: %w", err)
	}
	events, ok := module.(*caddyevents.App)
	if !ok {
		return nil, fmt.Errorf("the events app is a %T", module)
	}
	return &eventEmitter{events: events, ctx: ctx, withKeys: withKeys, emitting: make(chan struct{}, maxEmitting)}, nil
}

// Denied emits the event of a denial, unless the key had one within the second.
func (e *eventEmitter) Denied(c *limiter.Check, source limiter.Source) {
	if !e.events.ShouldEmit(eventDenied) || !lastEvents.Pass(time.Now(), time.Second, eventDenied, c.Policy.ID, c.Key.String()) {
		return
	}
	data := map[string]any{
		"policy": c.Policy.Name(), "limit": c.Policy.Capacity(),
		"retry_after": quotaheader.Seconds(c.Result.RetryAfter), "source": string(source),
	}
	e.addKey(data, c)
	e.InBackground(func() { e.events.Emit(e.ctx, eventDenied, data) })
}

// Banned emits the event of a ban that begins.
func (e *eventEmitter) Banned(c *limiter.Check, source limiter.Source, dryRun bool) {
	if !e.events.ShouldEmit(eventBanned) {
		return
	}
	data := map[string]any{
		"policy": c.Policy.Name(), "duration": quotaheader.Seconds(c.Result.BanLeft), "source": string(source), "dry_run": dryRun,
	}
	e.addKey(data, c)
	e.InBackground(func() { e.events.Emit(e.ctx, eventBanned, data) })
}

// ListensForThresholds reports whether the event of a threshold would reach a listener.
func (e *eventEmitter) ListensForThresholds() bool { return e.events.ShouldEmit(eventThreshold) }

// Threshold emits the event of a fraction that a client's use has reached.
func (e *eventEmitter) Threshold(c *limiter.Check, mark rule.Fraction, source limiter.Source, dryRun bool) {
	data := map[string]any{
		"policy": c.Policy.Name(), "limit": c.Policy.Capacity(), "threshold": mark.Percent(), "remaining": c.Result.Remaining,
		"reset_after": quotaheader.Seconds(c.Result.ResetAfter), "source": string(source), "dry_run": dryRun,
	}
	e.addKey(data, c)
	e.events.Emit(e.ctx, eventThreshold, data)
}

// addKey adds a check's key, if keys may be logged.
func (e *eventEmitter) addKey(data map[string]any, c *limiter.Check) {
	if e.withKeys {
		data["key"] = c.Key.String()
	}
}

// InBackground runs a function that emits, and reports whether it does: not if too many are running.
func (e *eventEmitter) InBackground(emit func()) bool {
	select {
	case e.emitting <- struct{}{}:
	default:
		return false
	}
	go func() {
		defer func() { <-e.emitting }()
		emit()
	}()
	return true
}
