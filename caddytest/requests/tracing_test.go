package requests

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// collector stores the spans that a Caddy exports.
type collector struct {
	mu   sync.Mutex
	text strings.Builder
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body) // a truncated body has no span
	c.mu.Lock()
	defer c.mu.Unlock()
	c.text.Write(body)
	w.WriteHeader(http.StatusOK)
}

// has reports whether the spans contain a text.
func (c *collector) has(text string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Contains(c.text.String(), text)
}

// TestTracing_spans exports the spans of Caddy's tracing to a collector.
func TestTracing_spans(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	spans := new(collector)
	address := caddytest.Serve(t, spans.ServeHTTP)
	n := caddytest.Start(t, caddytest.Config("redis_ratelimit {\n\tredis redis://"+server.Addr+"\n}", "tracing {\n\tspan outer-span\n}\nredis_ratelimit same 1000 24h"+caddytest.ShowDecision),
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://"+address, "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf", "OTEL_BSP_SCHEDULE_DELAY=50",
		"OTEL_METRICS_EXPORTER=none", "OTEL_LOGS_EXPORTER=none")
	caddytest.WaitForRedis(t, n, "/")
	redistest.WaitFor(t, "the spans have come", func() error {
		for _, text := range []string{"outer-span", "EVALSHA", "db.system.name", "server.port"} {
			if !spans.has(text) {
				return errors.New("none has " + text)
			}
		}
		return nil
	})
	if spans.has("rl:{") {
		t.Error("a client's key is in a span")
	}
}
