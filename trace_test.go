package redisratelimit

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

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
	_ = chain([]*Handler{h}, caddyhttp.HandlerFunc(hello)).ServeHTTP(w, r) // a denial is an error
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
		redistest.ErrorIf(t, known && a.Value.AsString() != text, "%s is %v, want %s", a.Key, a.Value, text)
		delete(want, string(a.Key))
	}
	redistest.ErrorIf(t, len(want) > 0 || spans[0].Status.Code == codes.Error, "missing %v; status %v", want, spans[0].Status)
	if spans := spansOf(t, h); len(spans) != 2 {
		t.Errorf("a denial by Redis: got %v", spans)
	}
	if spans := spansOf(t, h); len(spans) != 1 {
		t.Errorf("a denial repeated without asking: got %v", spans)
	}
}

func TestTrace_tells_why_Redis_could_not_decide(t *testing.T) {
	ctx := lastingContext(t, nowhere)
	spans := spansOf(t, loadHandler(t, ctx, tracedPolicy))
	redistest.FatalIf(t, len(spans) != 2 || spans[0].Status.Code != codes.Error, "got %v", spans)
	want := attribute.String("error.type", "refused")
	for _, a := range spans[0].Attributes {
		if a == want {
			return
		}
	}
	t.Errorf("no %v in %v", want, fmt.Sprint(spans[0].Attributes))
}
