package redisratelimit

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/once"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

// listener hands on the events that it hears.
type listener chan caddy.Event

func (l listener) Handle(_ context.Context, e caddy.Event) error {
	l <- e
	return nil
}

// listening provisions a handler whose configuration has a listener for denials. It forgets the events of
// other tests.
func listening(t *testing.T, handler string) (*Handler, listener) {
	t.Helper()
	lastEvents = once.NewMemory()
	heard := make(listener, 100)
	return hearing(t, handler, heard, eventDenied, eventBanned), heard
}

// hearing provisions a handler whose configuration has a listener for events.
func hearing(t *testing.T, handler string, heard listener, events ...string) *Handler {
	t.Helper()
	ctx := lastingContext(t, "")
	module, err := ctx.App("events")
	redistest.Must(t, err)
	for _, event := range events {
		if err := module.(*caddyevents.App).On(event, heard); err != nil { //nolint:forcetypeassert,errcheck // nothing else has the name
			t.Fatal(err)
		}
	}
	return loadHandler(t, ctx, handler)
}

func TestEvent_tells_of_a_denial_once_a_second(t *testing.T) {
	h, heard := listening(t, `{"policies":[{"name":"events","key":"same","limit":2,"window":"24h"}],"log_keys":true}`)
	server := serve(t, hello, h)
	for range 20 {
		fetch(t, server.URL)
	}
	e := <-heard
	for name, want := range map[string]any{"policy": "events", "limit": int64(2), "source": "memory", "key": "same"} {
		redistest.ErrorIf(t, e.Data[name] != want, "%s is %v, want %v", name, e.Data[name], want)
	}
	wait, _ := e.Data["retry_after"].(string)
	redistest.ErrorIf(t, wait == "" || strings.HasPrefix(wait, "-"), "retry_after is %q", wait)
	if more := len(heard); more > 1 { // two where a second ended among the requests
		t.Errorf("%d events more", more)
	}
}

func TestEvent_has_no_key_unless_keys_may_be_logged(t *testing.T) {
	h, heard := listening(t, `{"policies":[{"name":"quiet-events","key":"same","limit":1,"window":"24h"}]}`)
	server := serve(t, hello, h)
	for range 2 {
		fetch(t, server.URL)
	}
	e := <-heard
	redistest.ErrorIf(t, e.Data["key"] != nil || e.Data["policy"] != "quiet-events", "got %v", e.Data)
}

// TestEvents_wait_for_nobody has a listener that never ends: requests go on, and the events on their
// way stay few.
func TestEvents_wait_for_nobody(t *testing.T) {
	stuck := make(listener)
	h := hearing(t, `{"policies":[{"name":"many-events","key":"{http.request.uri.query}","limit":1,"window":"24h"}]}`, stuck, eventDenied)
	server := serve(t, hello, h)
	for i := range 3 * maxEmitting {
		key := "?" + string(rune('a'+i%26)) + strings.Repeat("k", i)
		fetch(t, server.URL+key)
		response := fetch(t, server.URL+key)
		redistest.FatalIf(t, response.StatusCode != http.StatusTooManyRequests, "got %v", response)
	}
	got := len(h.events.emitting)
	redistest.ErrorIf(t, got != maxEmitting, "%d events are on their way, want %d", got, maxEmitting)
	for range maxEmitting {
		<-stuck
	}
}

func BenchmarkEvent(b *testing.B) {
	h := newHandler(b, policyJSON("p", "1"))
	check := limiter.Check{Policy: h.limiter.Rules.Rules[0].Policy, Key: limiter.EncodeKey("k")}
	b.Run("nobody_listens", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			h.events.Denied(&check, limiter.SourceMemory)
		}
	})
}

// TestEvent_ban expects the event of a ban when it begins, beside that of the denial.
func TestEvent_ban(t *testing.T) {
	h, heard := listening(t, `{"policies":[{"name":"ban-events","key":"same","limit":1,"window":"24h","ban":{"durations":["1h"],"after":2}}]}`)
	server := serve(t, hello, h)
	for range 5 {
		fetch(t, server.URL)
	}
	timeout := time.After(time.Minute)
	for {
		select {
		case e := <-heard:
			if e.Name() != eventBanned {
				continue
			}
			if e.Data["policy"] != "ban-events" || e.Data["duration"] != "3600" || e.Data["source"] != "memory" || e.Data["dry_run"] != false || e.Data["key"] != nil {
				t.Errorf("got %v", e.Data)
			}
			return
		case <-timeout:
			t.Fatal("no event of the ban")
		}
	}
}
