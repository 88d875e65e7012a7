package redisratelimit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"sync"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/display"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/gate"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redis"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storepool"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/webhook"
)

// clientEvents are what a handler tells of clients. It is a [gate.Webhook].
type clientEvents struct {
	*runningWebhook

	stores   *storepool.Stores
	withKeys bool
}

// TellsThresholds reports whether the receiver wants the events of thresholds.
func (w clientEvents) TellsThresholds() bool { return w.tells(tellThreshold) }

// Banned tells of a ban that begins. Redis begins each once, so that the mark of an earlier one is not asked for.
func (w clientEvents) Banned(c *limiter.Check, source limiter.Source, dryRun bool) {
	if !w.tells(tellBanned) {
		return
	}
	event := newMessage(eventBanned, map[string]any{
		"policy": c.Policy.Name(), "duration": wholeSeconds(c.Result.BanLeft), "source": string(source), "dry_run": dryRun,
	})
	mark := w.shared(source, banKey(c), c.Result.BanLeft)
	if mark != nil {
		mark.New = true
	}
	w.TellOfClient(event, kindOf(eventBanned, c, source, dryRun), w.keyOf(c), mark)
}

// Threshold tells that a client's use has reached a fraction of the capacity.
func (w clientEvents) Threshold(c *limiter.Check, mark rule.Fraction, source limiter.Source, dryRun bool, quiet time.Duration) {
	event := newMessage(eventThreshold, map[string]any{
		"policy": c.Policy.Name(), "limit": c.Policy.Capacity(), "threshold": mark.Percent(), "remaining": c.Result.Remaining,
		"reset_after": wholeSeconds(c.Result.ResetAfter), "source": string(source), "dry_run": dryRun,
	})
	kind := kindOf(eventThreshold, c, source, dryRun) + mark.String()
	w.TellOfClient(event, kind, w.keyOf(c), w.shared(source, thresholdKey(c, mark), quiet))
}

// kindOf names the events that may be told as one: those of a policy that differ in clients and numbers alone.
func kindOf(event string, c *limiter.Check, source limiter.Source, dryRun bool) string {
	return fmt.Sprintf("%s %q %s %t ", event, c.Policy.ID, source, dryRun)
}

// BanSign takes a request that shows that a ban has begun.
func (w clientEvents) BanSign(c *limiter.Check) {
	if w.tells(tellBanned) && w.MayLook(time.Now(), c.Policy.ID, "", c.Key.String()) {
		w.look(c, banKey(c), c.Result.BanLeft)
	}
}

// ThresholdSign takes a request that shows that a fraction was reached before.
func (w clientEvents) ThresholdSign(c *limiter.Check, mark rule.Fraction, quiet time.Duration) {
	if w.MayLook(time.Now(), c.Policy.ID, mark.String(), c.Key.String()) {
		w.look(c, thresholdKey(c, mark), quiet)
	}
}

func (w clientEvents) look(c *limiter.Check, name func(*redis.Store) string, life time.Duration) {
	if mark := w.shared(limiter.SourceRedis, name, life); mark != nil {
		w.Look(*w.keyOf(c), *mark)
	}
}

// keyOf returns a check's key, which is hashed unless keys may be logged. One that is shown has the form that commands take:
// JSON has no arbitrary bytes.
func (w clientEvents) keyOf(c *limiter.Check) *webhook.Key {
	if w.withKeys {
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
func (w clientEvents) shared(source limiter.Source, name func(*redis.Store) string, life time.Duration) *webhook.Mark {
	if w.stores.Redis == nil || !gate.IsShared(source) {
		return nil
	}
	return &webhook.Mark{Redis: markStore{w.stores}, Name: name(w.stores.Redis.Store) + ":told", Until: clock.Now().Add(life)}
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
	return int64(math.Ceil(d.Seconds()))
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
