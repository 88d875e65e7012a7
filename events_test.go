package redisratelimit

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/gate"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
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
	lastEvents = clock.NewEventFilter()
	heard := make(listener, 100)
	return hearing(t, handler, heard, eventDenied, eventBanned), heard
}

// hearing provisions a handler whose configuration has a listener for events.
func hearing(t *testing.T, handler string, heard listener, events ...string) *Handler {
	t.Helper()
	ctx := lastingContext(t, "")
	module := assert.NoError(ctx.App("events"))(t)
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
		assert.ErrorIf(t, e.Data[name] != want, "%s is %v, want %v", name, e.Data[name], want)
	}
	wait, _ := e.Data["retry_after"].(string)
	assert.ErrorIf(t, wait == "" || strings.HasPrefix(wait, "-"), "retry_after is %q", wait)
	if more := len(heard); more > 1 { // two where a second ended among the requests
		t.Errorf("%d events more", more)
	}
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
		assert.FatalIf(t, response.StatusCode != http.StatusTooManyRequests, "got %v", response)
	}
	assert.Equal(t, len(h.listeners.emitting), maxEmitting, "the number of events that are on their way")
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
			h.listeners.Denied(gate.Event{Check: &check, Source: limiter.SourceMemory})
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
			assert.ErrorIf(t, e.Data["key"] != nil, "an event without log_keys has the key %v", e.Data["key"])
			if e.Name() != eventBanned {
				continue
			}
			if e.Data["policy"] != "ban-events" || e.Data["duration"] != "3600" || e.Data["source"] != "memory" || e.Data["dry_run"] != false {
				t.Errorf("got %v", e.Data)
			}
			return
		case <-timeout:
			t.Fatal("no event of the ban")
		}
	}
}

// spansOf sends a request, within a span as Caddy's tracing handler makes one, and returns the spans
// that became of it, the innermost first.
func spansOf(t *testing.T, h *Handler) tracetest.SpanStubs {
	t.Helper()
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	ctx, span := provider.Tracer("caddy").Start(t.Context(), "request")
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/", http.NoBody)
	w := httptest.NewRecorder()
	r = caddyhttp.PrepareRequest(r, caddy.NewReplacer(), w, &caddyhttp.Server{})
	_ = chain([]*Handler{h}, hello).ServeHTTP(w, r) // a denial is an error
	span.End()
	return spans.GetSpans()
}

const tracedPolicy = `{"policies":[{"name":"traced","key":"same","limit":1,"window":"24h"}]}`

func TestTrace_has_a_span_for_each_question_to_Redis(t *testing.T) {
	server := redistest.Start(t)
	ctx := lastingContext(t, `{"redis":{"url":"redis://`+server.Addr+`/3"},"timeout":"10s"}`)
	h := loadHandler(t, ctx, tracedPolicy)
	spans := spansOf(t, h)
	if len(spans) != 2 || spans[0].Name != "EVALSHA" || spans[0].Parent.SpanID() != spans[1].SpanContext.SpanID() || spans[0].SpanKind != trace.SpanKindClient {
		t.Fatalf("got %v", spans)
	}
	want := map[string]string{
		"db.system.name": "redis", "db.operation.name": "EVALSHA", "db.namespace": "3", "server.address": "127.0.0.1",
	}
	for _, a := range spans[0].Attributes {
		text, known := want[string(a.Key)]
		assert.ErrorIf(t, known && a.Value.AsString() != text, "%s is %v, want %s", a.Key, a.Value, text)
		delete(want, string(a.Key))
	}
	assert.ErrorIf(t, len(want) > 0 || spans[0].Status.Code == codes.Error, "missing %v; status %v", want, spans[0].Status)
	if spans := spansOf(t, h); len(spans) != 2 {
		t.Errorf("a denial by Redis: got %v", spans)
	}
	if spans := spansOf(t, h); len(spans) != 1 {
		t.Errorf("a denial repeated without asking: got %v", spans)
	}
}

func TestTrace_tells_why_Redis_could_not_decide(t *testing.T) {
	const patient = `{"redis":{"url":"redis://127.0.0.1:1"},"timeout":"10s"}` // a busy machine learns late that nothing listens
	spans := spansOf(t, loadHandler(t, lastingContext(t, patient), tracedPolicy))
	assert.FatalIf(t, len(spans) != 2 || spans[0].Status.Code != codes.Error, "got %v", spans)
	want := attribute.String("error.type", "refused")
	for _, a := range spans[0].Attributes {
		if a == want {
			return
		}
	}
	t.Errorf("no %v in %v", want, fmt.Sprint(spans[0].Attributes))
}
