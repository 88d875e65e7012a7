package storepool

import (
	"context"
	"net"
	"slices"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.30.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/dial"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// tracerName names the instrumentation in spans.
const tracerName = "github.com/redis-ratelimit/caddy-redis-ratelimit"

// traceStore returns what makes a span of each question to Redis, as a child of the span that Caddy's
// tracing handler has begun; requests without such a span cost a look at their context. Attributes are
// those of OpenTelemetry's semantic conventions for Redis. A question travels with others in one
// command, so that its span tells how long the request waited, not how long its command took.
func traceStore(o dial.Connection) func(ctx context.Context) func(err error) {
	attributes := storeAttributes(o)
	return func(ctx context.Context) func(err error) {
		parent := trace.SpanFromContext(ctx)
		if !parent.IsRecording() {
			return nil
		}
		_, span := parent.TracerProvider().Tracer(tracerName).Start(ctx, "EVALSHA",
			trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attributes...))
		return func(err error) {
			if err != nil {
				span.SetAttributes(semconv.ErrorTypeKey.String(limiter.Kind(err)))
				span.SetStatus(codes.Error, err.Error())
			}
			span.End()
		}
	}
}

// storeAttributes describe the Redis of some options.
func storeAttributes(o dial.Connection) []attribute.KeyValue {
	attributes := []attribute.KeyValue{
		semconv.DBSystemNameRedis, semconv.DBOperationName("EVALSHA"), semconv.DBNamespace(strconv.Itoa(o.DB)),
	}
	if len(o.Addresses) != 1 {
		return slices.Clip(attributes) // who of them decides is not known here
	}
	if strings.HasPrefix(o.Addresses[0], "/") {
		return append(attributes, semconv.ServerAddress(o.Addresses[0]))
	}
	host, text, err := net.SplitHostPort(o.Addresses[0])
	if port, badPort := strconv.Atoi(text); err == nil && badPort == nil {
		attributes = append(attributes, semconv.ServerAddress(host), semconv.ServerPort(port))
	}
	return attributes
}
