package redisratelimit

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/adminapi"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// webhookTo returns the JSON of an app that tells an inbox of events, by placeholders.
func webhookTo(t *testing.T, b *caddytest.Inbox, events string) string {
	t.Helper()
	t.Setenv("WEBHOOK_URL", b.URL)
	t.Setenv("WEBHOOK_SECRET", caddytest.InboxSecret)
	return `{"webhook":{"url":"{env.WEBHOOK_URL}/hook","secret":"{env.WEBHOOK_SECRET}","events":[` + events + `]}}`
}

// TestWebhook_neverMet tells once of the policy that no request has come to in a day, also after a reload.
func TestWebhook_neverMet(t *testing.T) {
	box := caddytest.NewInbox(t)
	app := webhookTo(t, box, `"never_met"`)
	ctx := lastingContext(t, app)
	server := serve(t, hello, loadHandler(t, ctx, policyJSON("met-policy", "5")))
	loadHandler(t, ctx, policyJSON("unmet-policy", "5"))
	fetch(t, server.URL)
	a, later := appOf(t, ctx), time.Now().Add(neverMetAfter)
	assert.ErrorIf(t, !a.tellNeverMet(time.Now()) || len(box.Messages()) > 0, "it is told before a day is over")
	assert.ErrorIf(t, a.tellNeverMet(later), "it may be told again")
	m := box.WaitFor(t, messageNeverMet, 1)[0]
	assert.ErrorIf(t, m.Data["policy"] != "unmet-policy" || m.Data["since"] == "", "got %v", m.Data)
	next := lastingContext(t, app)
	loadHandler(t, next, policyJSON("unmet-policy", "5"))
	assert.ErrorIf(t, appOf(t, next).webhook.webhookQueue != a.webhook.webhookQueue, "the next configuration has another queue")
	appOf(t, next).tellNeverMet(later.Add(neverMetAfter))
	appOf(t, next).webhook.tell(tellNeverMet, "last", map[string]any{})
	box.WaitFor(t, "last", 1)
	box.WaitFor(t, messageNeverMet, 1)
}

// TestWebhook_neverMetAfterReloads looks at the policies even if the next configuration is loaded within a minute.
func TestWebhook_neverMetAfterReloads(t *testing.T) {
	box := caddytest.NewInbox(t)
	ctx, end := newContext(t, webhookTo(t, box, `"never_met"`))
	loadHandler(t, ctx, policyJSON("reloaded-policy", "5"))
	a := appOf(t, ctx)
	a.startWebhook()
	assert.ErrorIf(t, !a.neverMet.IsDueBy(clock.Now().Add(time.Minute)), "the first look is due in %v", a.neverMet.Due().Since(clock.Now()))
	end()
	a.neverMet.Run() // a look that was under way
	assert.ErrorIf(t, a.neverMet.IsSet(), "a configuration that has ended looks again")
}

// TestWebhook_warnings has the warnings of a webhook among those that the live page shows.
func TestWebhook_warnings(t *testing.T) {
	(&webhookQueue{logger: processLogger}).logFailing(errors.New("the answer has status 500"))
	got := slices.ContainsFunc(pool.Warnings.List(), func(w adminapi.Warning) bool {
		return strings.HasPrefix(w.Text, "the webhook's receiver does not take events") && strings.Contains(w.Details, "status 500")
	})
	assert.ErrorIf(t, !got, "the page has %v", pool.Warnings.List())
}

// TestWebhook_off tells a handler of no webhook if its events are others, or if there is none.
func TestWebhook_off(t *testing.T) {
	box := caddytest.NewInbox(t)
	for app, want := range map[string]bool{"": false, webhookTo(t, box, `"outage"`): false, webhookTo(t, box, `"banned"`): true, webhookTo(t, box, ""): true} {
		h := loadHandler(t, lastingContext(t, app), policyJSON("p", "5"))
		bans, thresholds := h.limiter.Listener.TakesSigns()
		assert.ErrorIf(t, (bans || thresholds) != want, "%s: the webhook tells of clients: %t", app, !want)
	}
}

// TestWebhook_dryRun tells of what a dry run meets, and that it is one.
func TestWebhook_dryRun(t *testing.T) {
	box := caddytest.NewInbox(t)
	ctx := lastingContext(t, webhookTo(t, box, `"threshold","banned"`))
	h := loadHandler(t, ctx, `{"policies":[{"name":"webhook-dry","key":"same","limit":2,"window":"24h","notify":[50],"dry_run":true,"ban":{"durations":["1h"],"after":1}}]}`)
	server := serve(t, hello, h)
	for range 5 {
		response := fetch(t, server.URL)
		assert.FatalIf(t, response.StatusCode != http.StatusOK, "got %v", response)
	}
	for _, m := range append(box.WaitFor(t, eventThreshold, 1), box.WaitFor(t, eventBanned, 1)...) {
		assert.ErrorIf(t, m.Data["dry_run"] != true || m.Data["source"] != "memory", "got %v", m.Data)
	}
}

// BenchmarkWebhook_sign has requests above a mark that was looked at lately.
func BenchmarkWebhook_sign(b *testing.B) {
	box := caddytest.NewInbox(b)
	text, _ := json.Marshal(map[string]any{"webhook": map[string]string{"url": box.URL, "secret": caddytest.InboxSecret}})
	ctx := lastingContext(b, string(text))
	h := loadHandler(b, ctx, `{"policies":[{"name":"webhook-bench","key":"same","limit":10,"window":"24h","notify":[50,80]}]}`)
	check := limiter.Check{Policy: h.limiter.Rules.Rules[0].Policy, Key: limiter.EncodeKey("same")}
	b.ReportAllocs()
	for b.Loop() {
		h.limiter.Listener.ThresholdSign(&check, h.limiter.Rules.Rules[0].Notify[0], time.Hour)
	}
}
