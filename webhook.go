package redisratelimit

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/options"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storepool"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/webhook"
)

// Webhook says who is told what happens, by the conventions of Standard Webhooks (standardwebhooks.com).
type Webhook struct {
	// `http://` or `https://` and a host. Loopback and private addresses are allowed. Takes placeholders as `secret` does.
	URL string `json:"url,omitempty"`

	// Signs the messages and hides clients' keys in them: `whsec_` and 24 to 64 bytes in base64. Placeholders such as
	// `{env.NAME}` and `{file.path}` are resolved when the configuration is loaded. Required.
	Secret string `json:"secret,omitempty"`

	// Which events are told: `threshold`, `banned`, `outage`, `data_lost`, `never_met`. Default: all.
	Events []string `json:"events,omitempty"`
}

// webhookEvent is a kind of event that a webhook may tell.
type webhookEvent string

const (
	tellThreshold webhookEvent = "threshold"
	tellBanned    webhookEvent = "banned"
	tellOutages   webhookEvent = "outage"
	tellLoss      webhookEvent = "data_lost"
	tellNeverMet  webhookEvent = "never_met"
)

var webhookEvents = []webhookEvent{tellThreshold, tellBanned, tellOutages, tellLoss, tellNeverMet}

// check refuses what cannot work whatever the placeholders hold. A webhook of nil is none.
func (w *Webhook) check() error {
	if w == nil {
		return nil
	}
	if err := w.mistake(); err != nil {
		return fmt.Errorf("webhook: %w", err)
	}
	return nil
}

// mistake returns the first mistake, whose text begins with the option.
func (w *Webhook) mistake() error {
	if _, err := parseUnlessPlaceholder(w.URL, webhook.ParseURL); err != nil {
		return err
	}
	if w.Secret == "" {
		return errors.New("secret is missing; make one by: echo whsec_$(openssl rand -base64 32)")
	}
	if _, err := parseUnlessPlaceholder(w.Secret, webhook.ParseSecret); err != nil {
		return err
	}
	for i, event := range w.Events {
		switch {
		case !slices.Contains(webhookEvents, webhookEvent(event)):
			return fmt.Errorf("events: one of the names is unknown; use %s", joinEvents())
		case slices.Contains(w.Events[:i], event):
			return fmt.Errorf("events: %s is there twice; leave one out", event)
		}
	}
	return nil
}

// parseUnlessPlaceholder parses a text that has no placeholder.
func parseUnlessPlaceholder[T any](text string, parse func(string) (T, error)) (value T, err error) {
	if strings.Contains(text, "{") {
		return value, nil
	}
	return parse(text)
}

// joinEvents lists the events that a webhook may tell.
func joinEvents() string {
	var names []string
	for _, event := range webhookEvents {
		names = append(names, string(event))
	}
	return strings.Join(names, ", ")
}

// runningWebhook is the webhook of a configuration. Nil tells nothing.
type runningWebhook struct {
	*webhookQueue

	events []webhookEvent
}

// webhooks has the queues of receivers, which outlive configurations.
var webhooks = caddy.NewUsagePool()

// webhookDeliveries has a series of each outcome, at 0: a rate does not show the first of a series that begins at 1.
var webhookDeliveries = func() *prometheus.CounterVec {
	deliveries := storepool.Counter("webhook_deliveries_total",
		"Events for the webhook by outcome: delivered; retry, an attempt failed and is repeated; expired, none succeeded in ten minutes; "+
			"gone, the receiver wants none any more; dropped, the queue was full; lost, they waited when Caddy ended or the webhook was "+
			"removed.", "outcome")
	for _, o := range webhook.DeliveryStatuses() {
		deliveries.WithLabelValues(string(o))
	}
	return deliveries
}()

// webhookQueue is the queue of a receiver, which all configurations with the receiver use.
type webhookQueue struct {
	*webhook.Dispatcher

	key    string // in the pool
	logger func() *zap.Logger
	untold clock.Gate
}

// open returns the webhook with the queue that its receiver has; nil where there is no webhook. The queue logs by a logger
// that is not a configuration's, as queues outlive these.
func (w *Webhook) open(logger func() *zap.Logger) (*runningWebhook, error) {
	if w == nil {
		return nil, nil //nolint:nilnil // nil tells nothing
	}
	if err := w.check(); err != nil {
		return nil, err
	}
	target, secret := w.URL, w.Secret
	err := options.ResolveTexts([]options.OptionText{{Option: "url", Text: &target}, {Option: "secret", Text: &secret}})
	if err != nil {
		return nil, fmt.Errorf("webhook: %w", err)
	}
	u, err := webhook.ParseURL(target)
	if err != nil {
		return nil, fmt.Errorf("webhook: %w", err)
	}
	parsed, err := webhook.ParseSecret(secret)
	if err != nil {
		return nil, fmt.Errorf("webhook: %w", err)
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q", target, secret))
	queue, err := openQueue(hex.EncodeToString(sum[:]), u, parsed, logger)
	if err != nil {
		return nil, err
	}
	events := webhookEvents
	if len(w.Events) > 0 {
		events = nil
	}
	for _, event := range w.Events {
		events = append(events, webhookEvent(event))
	}
	return &runningWebhook{queue, events}, nil
}

// openQueue returns the queue of a receiver that the process has by a key, and makes it if there is none.
func openQueue(key string, u *url.URL, secret webhook.Secret, logger func() *zap.Logger) (*webhookQueue, error) {
	held, _, err := webhooks.LoadOrNew(key, func() (caddy.Destructor, error) {
		q := &webhookQueue{key: key, logger: logger}
		q.Dispatcher = webhook.New(u, secret, webhook.Hooks{
			Count:     func(o webhook.DeliveryStatus, n int) { webhookDeliveries.WithLabelValues(string(o)).Add(float64(n)) },
			OnFailing: q.logFailing, OnUntold: q.logUntold,
		})
		return q, nil
	})
	queue, ok := held.(*webhookQueue)
	if err == nil && !ok {
		err = fmt.Errorf("the webhook is a %T", held)
	}
	return queue, err
}

// logFailing logs that the receiver begins to fail, or that it has ended to.
func (q *webhookQueue) logFailing(err error) {
	if err == nil {
		q.logger().Info("the webhook's receiver takes events again")
		return
	}
	q.logger().Warn("the webhook's receiver does not take events; each is sent again for ten minutes", zap.Error(err))
}

// logUntold logs, once a minute, that events are not told.
func (q *webhookQueue) logUntold(o webhook.DeliveryStatus) {
	if q.untold.Pass(time.Now(), time.Minute) {
		q.logger().Warn("events are not told to the webhook's receiver; webhook_deliveries_total counts them",
			zap.String("outcome", string(o)))
	}
}

// Destruct ends the queue, which no configuration uses any more. What waits in it is lost.
func (q *webhookQueue) Destruct() error {
	if lost := q.Close(); lost > 0 {
		q.logger().Warn("events for the webhook are lost: they waited when it was removed, or when Caddy ended", zap.Int("events", lost))
	}
	return nil
}

// close ends the use of the queue by a configuration.
func (w *runningWebhook) close() {
	if w != nil {
		_, _ = webhooks.Delete(w.key) // Destruct returns no error
	}
}

// tells reports whether the receiver wants an event.
func (w *runningWebhook) tells(event webhookEvent) bool {
	return w != nil && slices.Contains(w.events, event)
}

// queued counts the events that wait.
func (w *runningWebhook) queued() int {
	if w == nil {
		return 0
	}
	return w.Len()
}
