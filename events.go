package redisratelimit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/answer"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/display"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/gate"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/options"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redis"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storepool"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/webhook"
)

// eventDenied is emitted through Caddy's events app when a client is denied: at most once per policy,
// key and second, and only where a listener is subscribed. Its data are policy, limit, retry_after (seconds)
// and source, and with log_keys the key, because Caddy logs the data of events.
const eventDenied = options.AppName + ".denied"

// eventBanned is emitted when a ban begins ([options.Policy.Ban]), on the node whose request began it. Its data
// are policy, duration (seconds), source and dry_run, and with log_keys the key.
const eventBanned = options.AppName + ".banned"

// eventThreshold is emitted when a request makes a client's use reach a fraction of the capacity
// ([options.Policy.Notify]): at most once per key, fraction and window. Its data are policy, limit, threshold (a
// percentage), remaining, reset_after (seconds), source and dry_run, and with log_keys the key.
const eventThreshold = options.AppName + ".threshold"

// The types of messages that are no events of Caddy's events app.
const (
	messageOutageBegan = options.AppName + ".outage.began"
	messageOutageEnded = options.AppName + ".outage.ended"
	messageDataLost    = options.AppName + ".data_lost"
	messageNeverMet    = options.AppName + ".never_met"
)

// lastEvents are the last events of all handlers.
var lastEvents = clock.NewEventFilter()

// maxEmitting is how many events may be on their way at a time. Listeners that are slower than
// denials come miss some; no request waits for listeners.
const maxEmitting = 32

// listeners are those of Caddy's events and the receiver of the webhook, who are told what happens to the clients of a handler.
// They are a [gate.Listener].
type listeners struct {
	events   *caddyevents.App
	ctx      caddy.Context
	emitting chan struct{}

	webhook *runningWebhook // nil: there is none
	stores  *storepool.Stores

	withKeys bool // clients' keys are told
}

// newListeners returns the listeners of a handler.
func newListeners(ctx caddy.Context, app *App, withKeys bool) (*listeners, error) {
	module, err := ctx.App("events")
	if err != nil {
		return nil, fmt.Errorf("getting the events app: %w", err)
	}
	events, ok := module.(*caddyevents.App)
	if !ok {
		return nil, fmt.Errorf("the events app is a %T", module)
	}
	return &listeners{
		events: events, ctx: ctx, emitting: make(chan struct{}, maxEmitting),
		webhook: app.webhook, stores: app.opened, withKeys: withKeys,
	}, nil
}

// Denied emits the event of a denial, unless the key had one within the second. The webhook tells of no denials.
func (l *listeners) Denied(e gate.Event) {
	c := e.Check
	if !l.events.ShouldEmit(eventDenied) || !lastEvents.Pass(time.Now(), time.Second, eventDenied, c.Policy.ID, c.Key.String()) {
		return
	}
	data := map[string]any{
		"policy": c.Policy.Name(), "limit": c.Policy.Capacity(),
		"retry_after": answer.Seconds(c.Result.RetryAfter), "source": string(e.Source),
	}
	l.addKey(data, c)
	l.inBackground(func() { l.events.Emit(l.ctx, eventDenied, data) })
}

// Banned tells of a ban that begins. Redis begins each once, so that the mark of an earlier one is not asked for.
func (l *listeners) Banned(e gate.Event) {
	if l.events.ShouldEmit(eventBanned) {
		data := bannedData(&e, answer.Seconds)
		l.addKey(data, e.Check)
		l.inBackground(func() { l.events.Emit(l.ctx, eventBanned, data) })
	}
	if !l.webhook.tells(tellBanned) {
		return
	}
	mark := l.shared(e.Source, banKey(e.Check), e.Check.Result.BanLeft)
	if mark != nil {
		mark.New = true
	}
	l.webhook.TellOfClient(newMessage(eventBanned, bannedData(&e, wholeSeconds)), kindOf(eventBanned, &e), l.keyOf(e.Check), mark)
}

// bannedData returns what is told of a ban. Events have seconds as text, messages of the webhook as whole numbers.
func bannedData[T any](e *gate.Event, seconds func(time.Duration) T) map[string]any {
	return map[string]any{
		"policy": e.Check.Policy.Name(), "duration": seconds(e.Check.Result.BanLeft), "source": string(e.Source), "dry_run": e.DryRun,
	}
}

// ListensForThresholds reports whether the event of a threshold would reach a listener or the webhook.
func (l *listeners) ListensForThresholds() bool {
	return l.webhook.tells(tellThreshold) || l.events.ShouldEmit(eventThreshold)
}

// Thresholds tells of fractions that a client's use has reached.
func (l *listeners) Thresholds(e gate.Event, marks []rule.Fraction, quiet time.Duration) bool {
	told := l.tellThresholds(&e, marks, quiet)
	return !l.events.ShouldEmit(eventThreshold) || l.inBackground(func() { l.emitThresholds(&e, marks) }) || told
}

// ThresholdsLater finds out in the background which fractions a client's use has reached, and tells of these.
func (l *listeners) ThresholdsLater(e gate.Event, find func() (marks []rule.Fraction, quiet time.Duration)) bool {
	return l.inBackground(func() {
		marks, quiet := find()
		l.tellThresholds(&e, marks, quiet)
		if l.events.ShouldEmit(eventThreshold) {
			l.emitThresholds(&e, marks)
		}
	})
}

// emitThresholds emits the events of thresholds, and waits for their listeners.
func (l *listeners) emitThresholds(e *gate.Event, marks []rule.Fraction) {
	for _, mark := range marks {
		data := thresholdData(e, mark, answer.Seconds)
		l.addKey(data, e.Check)
		l.events.Emit(l.ctx, eventThreshold, data)
	}
}

// tellThresholds tells the webhook of thresholds, and reports whether it wants these.
func (l *listeners) tellThresholds(e *gate.Event, marks []rule.Fraction, quiet time.Duration) bool {
	if !l.webhook.tells(tellThreshold) {
		return false
	}
	for _, mark := range marks {
		kind := kindOf(eventThreshold, e) + mark.String()
		where := l.shared(e.Source, thresholdKey(e.Check, mark), quiet)
		l.webhook.TellOfClient(newMessage(eventThreshold, thresholdData(e, mark, wholeSeconds)), kind, l.keyOf(e.Check), where)
	}
	return true
}

// thresholdData returns what is told of a threshold. Events have seconds as text, messages of the webhook as whole numbers.
func thresholdData[T any](e *gate.Event, mark rule.Fraction, seconds func(time.Duration) T) map[string]any {
	c := e.Check
	return map[string]any{
		"policy": c.Policy.Name(), "limit": c.Policy.Capacity(), "threshold": mark.Percent(), "remaining": c.Result.Remaining,
		"reset_after": seconds(c.Result.ResetAfter), "source": string(e.Source), "dry_run": e.DryRun,
	}
}

// addKey adds a check's key to the data of an event, if keys may be told.
func (l *listeners) addKey(data map[string]any, c *limiter.Check) {
	if l.withKeys {
		data["key"] = c.Key.String()
	}
}

// inBackground runs a function that emits, and reports whether it does: not if too many are running.
func (l *listeners) inBackground(emit func()) bool {
	select {
	case l.emitting <- struct{}{}:
	default:
		return false
	}
	go func() {
		defer func() { <-l.emitting }()
		emit()
	}()
	return true
}

// TakesSigns reports whether the webhook tells of bans, and whether it tells of thresholds.
func (l *listeners) TakesSigns() (bans, thresholds bool) {
	return l.webhook.tells(tellBanned), l.webhook.tells(tellThreshold)
}

// BanSign takes a request that shows that a ban has begun.
func (l *listeners) BanSign(c *limiter.Check) {
	if l.webhook.MayLook(time.Now(), c.Policy.ID, "", c.Key.String()) {
		l.look(c, banKey(c), c.Result.BanLeft)
	}
}

// ThresholdSign takes a request that shows that a fraction was reached before.
func (l *listeners) ThresholdSign(c *limiter.Check, mark rule.Fraction, quiet time.Duration) {
	if l.webhook.MayLook(time.Now(), c.Policy.ID, mark.String(), c.Key.String()) {
		l.look(c, thresholdKey(c, mark), quiet)
	}
}

// look has this node watch the mark of an event that another node may tell of, for the time that the event's state lives.
func (l *listeners) look(c *limiter.Check, name func(*redis.Store) string, life time.Duration) {
	if mark := l.shared(limiter.SourceRedis, name, life); mark != nil {
		l.webhook.Look(*l.keyOf(c), *mark)
	}
}

// kindOf names the events that the webhook may tell as one: those of a policy that differ in clients and numbers alone.
func kindOf(event string, e *gate.Event) string {
	return fmt.Sprintf("%s %q %s %t ", event, e.Check.Policy.ID, e.Source, e.DryRun)
}

// keyOf returns a check's key for the webhook, which is hashed unless keys may be logged. One that is shown has the form that
// commands take: JSON has no arbitrary bytes.
func (l *listeners) keyOf(c *limiter.Check) *webhook.Key {
	if l.withKeys {
		return &webhook.Key{Text: display.EscapeKey(c.Key.String()), Shown: true}
	}
	return &webhook.Key{Text: c.Key.String()}
}

// banKey and thresholdKey return the names of what an event is of.
func banKey(c *limiter.Check) func(*redis.Store) string {
	return func(r *redis.Store) string { return r.BanKey(c.Policy, c.Key) }
}

func thresholdKey(c *limiter.Check, mark rule.Fraction) func(*redis.Store) string {
	return func(r *redis.Store) string { return r.RedisKey(c.Policy, c.Key) + ":" + mark.String() }
}

// shared returns where the nodes of a Redis agree who tells of an event: beside the state that the event is of, with the
// same life. It is nil if Redis has not decided, so that this node alone knows of the event.
func (l *listeners) shared(source limiter.Source, name func(*redis.Store) string, life time.Duration) *webhook.Mark {
	if l.stores.Redis == nil || !gate.IsShared(source) {
		return nil
	}
	return &webhook.Mark{Redis: markStore{l.stores}, Name: name(l.stores.Redis.Store) + ":told", Until: clock.Now().Add(life)}
}

// markStore asks the Redis of a configuration for marks, also after that configuration has ended.
type markStore struct{ stores *storepool.Stores }

var errNoMarks = errors.New("the configuration has no redis any more")

// Command implements [webhook.Redis].
func (s markStore) Command(ctx context.Context, keyAt int8, words ...any) (any, error) {
	stores := s.stores.Use()
	defer stores.End()
	if stores.Redis == nil {
		return nil, errNoMarks
	}
	return stores.Redis.Store.Command(ctx, keyAt, words...)
}

// nodeName is what this machine calls itself, in messages.
var nodeName = sync.OnceValue(func() string {
	name, _ := os.Hostname() // without one it is empty
	return name
})

// newMessage returns an event with the name of this node.
func newMessage(kind string, data map[string]any) webhook.Event {
	data["node"] = nodeName()
	return webhook.NewEvent(kind, data)
}

// wholeSeconds returns a time in seconds, rounded up; -1 if it has no end.
func wholeSeconds(d time.Duration) int64 {
	if d < 0 {
		return -1
	}
	return answer.CeilSeconds(d)
}

// tell tells what this node alone knows, if the receiver wants it.
func (w *runningWebhook) tell(wanted webhookEvent, kind string, data map[string]any) {
	if !w.tells(wanted) {
		return
	}
	rank := webhook.OfRedis
	if wanted == tellNeverMet {
		rank = webhook.OfPolicies
	}
	w.Tell(newMessage(kind, data), rank)
}
