package redisratelimit

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.30.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/overrides"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/policystats"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/failover"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/memory"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/redis"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/redis/dial"
)

// memoryKey is the pool's key of the one in-process store.
const memoryKey = "memory"

// sharedMemory is the in-process store of this process, with a failover that has no other.
type sharedMemory struct {
	store     *memory.Store
	failover  *failover.Store
	overrides *overrides.Live
	announced atomic.Bool // that the limits live here
	names     *policystats.Names
}

// Destruct ends what was kept for policies. No configuration uses it any more.
func (s *sharedMemory) Destruct() error {
	s.names.End()
	return nil
}

func acquireMemory() (*sharedMemory, error) {
	value, _, err := stores.LoadOrNew(memoryKey, func() (caddy.Destructor, error) {
		store := memory.New()
		return &sharedMemory{
			store: store, failover: failover.New(nil, store, failover.Options{AwaitsRefunds: true}),
			overrides: overrides.NewLocal(overrides.Hooks{}), names: policystats.New(store.Prune, time.Now),
		}, nil
	})
	if err != nil {
		return nil, err
	}
	memory, ok := value.(*sharedMemory)
	if !ok {
		return nil, fmt.Errorf("the store is a %T", value)
	}
	return memory, nil
}

// redisOptions is all that makes two shared stores the same. Its values are resolved and final.
type redisOptions struct {
	Client dial.Options
	TLS    string // the files and names that Client.TLS is made of
	Naming limiter.KeyFormat

	DenyAge        time.Duration
	LocalShare     float64
	ForgiveOutages bool
}

// poolKey tells options apart without holding them: a digest, credentials included.
func (o redisOptions) poolKey() string {
	o.Client.TLS, o.Client.LoadTLS = nil, nil
	sum := sha256.Sum256(fmt.Appendf(nil, "%#v", o))
	return "redis:" + hex.EncodeToString(sum[:])
}

// sharedRedis is a store on one Redis, behind a failover.
type sharedRedis struct {
	key       string
	store     *redis.Store
	failover  *failover.Store
	overrides *overrides.Live
}

// Destruct ends the polls, gives leases back and closes the client when no configuration uses it any more.
func (s *sharedRedis) Destruct() error {
	s.overrides.Close()
	s.failover.EndLeases()
	return s.store.Close()
}

// sameOverrides returns the overrides of the running configuration, if they lie where these options lead to,
// so that they apply in the first moments of a store with other options too; otherwise nil.
func (o redisOptions) sameOverrides() *overrides.Live {
	if app := apps.newest(); app != nil && o.samePlace(app.redis) {
		return app.overrides
	}
	return nil
}

// samePlace reports whether other options, which may be nil, lead to the same keys of the same Redis.
func (o redisOptions) samePlace(other *redisOptions) bool {
	if other == nil {
		return false
	}
	a, b := o.Client, other.Client
	return a.Mode == b.Mode && a.Master == b.Master && a.DB == b.DB && slices.Equal(a.Addresses, b.Addresses) && o.Naming == other.Naming
}

func (s *sharedRedis) release() error {
	_, err := stores.Delete(s.key)
	return err
}

func acquireRedis(o redisOptions, memory *sharedMemory) (*sharedRedis, error) {
	key := o.poolKey()
	value, _, err := stores.LoadOrNew(key, func() (caddy.Destructor, error) {
		client, err := dial.New(o.Client)
		if err != nil {
			return nil, optionError(err)
		}
		troubles := &storeReporter{}
		store := redis.New(client, troubles.watch(o))
		failover := failover.New(store, memory.store, failover.Options{
			DenyAge: o.DenyAge, LocalFraction: o.LocalShare,
			ForgiveOutages: o.ForgiveOutages, AwaitsRefunds: true, OnRepaid: memory.names.CountOutage, OnLeaseEnd: memory.names.CountLeased,
			OnAsk: traceStore(o.Client), OnUndecided: troubles.undecided,
		})
		live := overrides.NewShared(store, o.Naming, o.sameOverrides(), troubles.watchOverrides(failover))
		return &sharedRedis{key: key, store: store, failover: failover, overrides: live}, nil
	})
	if err != nil {
		return nil, err
	}
	remote, ok := value.(*sharedRedis)
	if !ok {
		return nil, fmt.Errorf("the store is a %T", value)
	}
	return remote, nil
}

// tracerName names the instrumentation in spans.
const tracerName = "github.com/redis-ratelimit/caddy-redis-ratelimit"

// traceStore returns what makes a span of each question to Redis, as a child of the span that Caddy's
// tracing handler has begun; requests without such a span cost a look at their context. Attributes are
// those of OpenTelemetry's semantic conventions for Redis. A question travels with others in one
// command, so that its span tells how long the request waited, not how long its command took.
func traceStore(o dial.Options) func(ctx context.Context) func(err error) {
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
func storeAttributes(o dial.Options) []attribute.KeyValue {
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
