package redisratelimit

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

// metrics are what Caddy's registry shows. Caddy makes a new registry for every configuration, so
// that they live here, and go on counting over reloads. Clients' keys are never labels: a policy
// is one series for each outcome and source.
var metrics = struct {
	decisions    *prometheus.CounterVec
	storeSeconds *prometheus.HistogramVec
	storeErrors  *prometheus.CounterVec
	refundErrors *prometheus.CounterVec
	batchSize    prometheus.Histogram
	badValues    *prometheus.CounterVec
}{
	badValues: prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: metricsNamespace, Name: "bad_values_total",
		Help: "Requests whose limit, burst, weight or charge came from a placeholder and could not be used.",
	}, []string{"policy", "option"}),
	decisions: prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: metricsNamespace, Name: "decisions_total",
		Help: "Requests by policy, by what was decided about them (allowed, denied, failed_open, failed_closed, and dry_run_allowed, dry_run_denied of policies that only pretend) and by who decided (redis, memory, deny_cache, fallback).",
	}, []string{"policy", "decision", "source"}),
	storeSeconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: metricsNamespace, Name: "store_seconds",
		Help:    "Time that a store took: redis for the script run or the pipeline of a whole batch, memory for a decision.",
		Buckets: []float64{1e-6, 1e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 0.1, 0.25, 1},
	}, []string{"store"}),
	storeErrors: prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: metricsNamespace, Name: "store_errors_total",
		Help: "Requests that Redis could not decide, by why; breaker: those not sent because it fails.",
	}, []string{"kind"}),
	refundErrors: prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: metricsNamespace, Name: "refund_errors_total",
		Help: "Refunds (count_if) and charges after the response (charge) that Redis did not do, by why; breaker: those not sent because it fails.",
	}, []string{"kind"}),
	batchSize: prometheus.NewHistogram(prometheus.HistogramOpts{
		Namespace: metricsNamespace, Name: "batch_size",
		Help:    "Requests decided by one batch.",
		Buckets: []float64{1, 2, 4, 8, 16, 32, 64, 128},
	}),
}

const metricsNamespace = "caddy_redis_ratelimit"

// gauges ask the running app.
var gauges = []prometheus.Collector{
	prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: metricsNamespace, Name: "breaker_open",
		Help: "1 while requests are kept from Redis, or from a part of a Cluster, because it fails.",
	}, fromRunning(func(a *App) float64 {
		if failing, _ := a.store.Failing(); failing {
			return 1
		}
		return 0
	})),
	prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: metricsNamespace, Name: "held_requests",
		Help: "Requests that max_delay holds now.",
	}, func() float64 { return float64(held.Load()) }),
	prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: metricsNamespace, Name: "memory_keys",
		Help: "Shares known in this process: those it decides by, and those it has seen Redis decide by.",
	}, fromRunning(func(a *App) float64 { return float64(a.memory.store.Len()) })),
	prometheus.NewCounterFunc(prometheus.CounterOpts{
		Namespace: metricsNamespace, Name: "memory_evictions_total",
		Help: "Requests whose share found no room in this process, so that several clients shared one.",
	}, fromRunning(func(a *App) float64 { return float64(a.memory.store.Overflows()) })),
}

// fromRunning is a value of the running app, 0 where there is none.
func fromRunning(value func(a *App) float64) func() float64 {
	return func() float64 {
		if a := running.newest(); a != nil {
			return value(a)
		}
		return 0
	}
}

// registerMetrics makes the metrics part of a configuration's registry.
func registerMetrics(registry prometheus.Registerer) error {
	var errs []error
	for _, c := range append([]prometheus.Collector{metrics.decisions, metrics.storeSeconds, metrics.storeErrors, metrics.refundErrors, metrics.batchSize, metrics.badValues}, gauges...) {
		if err := registry.Register(c); err != nil && !errors.As(err, new(prometheus.AlreadyRegisteredError)) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// observeBatch counts a batch that Redis has decided or failed to.
func observeBatch(size int, took time.Duration) {
	redisSeconds.Observe(took.Seconds())
	metrics.batchSize.Observe(float64(size))
}

var (
	redisSeconds  = metrics.storeSeconds.WithLabelValues("redis")
	memorySeconds = metrics.storeSeconds.WithLabelValues("memory")
)

// outcomes and sources are the labels that a decision can have, in the order of decisionCounters.
var (
	outcomes = []rule.Outcome{rule.Allowed, rule.Denied, rule.FailedOpen, rule.FailedClosed, rule.DryAllowed, rule.DryDenied}
	sources  = []limiter.Source{limiter.SourceRedis, limiter.SourceMemory, limiter.SourceDenyCache, limiter.SourceFallback}
)

// index is the place of a value that is among others.
func index[T comparable](values []T, value T) int {
	for i := range values {
		if values[i] == value {
			return i
		}
	}
	return 0
}
