package redisratelimit

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/adminapi"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/challenge"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/options"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storepool"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/waiting"
)

const metricsNamespace = storepool.Namespace

// These count for the whole process: Caddy makes a new registry for every configuration, and the
// counts go on over reloads. The counts of policies are in internal/storepool/policystats.go.
var (
	storeDuration = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: metricsNamespace, Name: "store_duration_seconds",
		Help:    "Time that a store took: redis for the script run or the pipeline of a whole batch, memory for one in 64 decisions without Redis.",
		Buckets: []float64{1e-6, 1e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 0.1, 0.25, 1},
	}, []string{"store"})
	redisSeconds  = storeDuration.WithLabelValues("redis")
	memorySeconds = storeDuration.WithLabelValues("memory")

	batchSize = prometheus.NewHistogram(prometheus.HistogramOpts{
		Namespace: metricsNamespace, Name: "batch_size",
		Help:    "Requests decided by one batch.",
		Buckets: []float64{1, 2, 4, 8, 16, 32, 64, 128},
	})

	storeErrors = storepool.Counter("store_errors_total",
		"Requests that Redis could not decide, by the kind of error; breaker: requests not sent because Redis fails.", "kind")

	refundErrors = storepool.Counter("refund_errors_total",
		"Refunds and charges after the response (count_if, cost) and repayments of outages that Redis did not apply, by the kind of "+
			"error; breaker: those not sent because Redis fails.", "kind")

	dataLosses = prometheus.NewCounter(prometheus.CounterOpts{
		Namespace: metricsNamespace, Name: "data_losses_total",
		Help: "Times that Redis had lost its data although it answered throughout: it was emptied, evicts keys, or another server answers.",
	})

	blockedTotal = prometheus.NewCounter(prometheus.CounterOpts{
		Namespace: metricsNamespace, Name: "blocked_total",
		Help: "Requests that a block for all policies has refused, whichever policy they are counted for.",
	})

	challenges = storepool.Counter("challenges_total",
		"Browsers that were denied and may wait, by what became of them: shown, the page that waits; file, its style sheet was loaded; "+
			"passed, the wait was over; cookieless, it was over, and the request went on for one page without a pass; no_cookies, the "+
			"browser keeps none; early, it came back too early; invalid, what it brought back was forged, old or of another network.", "outcome")
)

// memoryOverflows reads the running app, as gauges do.
var memoryOverflows = prometheus.NewCounterFunc(prometheus.CounterOpts{
	Namespace: metricsNamespace, Name: "memory_overflows_total",
	Help: "Requests for whose state this process had no room, so that several clients used one.",
}, fromRunning(func(a *App) float64 { return float64(a.opened.Memory.Store.Overflows()) }))

// gauges read the running app, or the process.
var gauges = []prometheus.Collector{
	gauge("body_bytes", "Bytes of request bodies that this process holds, which max_bodies bounds.",
		func() float64 { return float64(bodies.Held()) }),
	gauge("breaker_open", "1 while no requests are sent to Redis, or to a part of a Cluster, because it fails.",
		fromRunning(func(a *App) float64 {
			stores := a.use()
			defer stores.End()
			failing, _ := stores.Failing()
			return oneIf(failing)
		})),
	gauge("credentials_stale", "1 while credentials cannot be renewed, so that connections to Redis go on with the last login.",
		fromRunning(func(a *App) float64 {
			return oneIf(a.opened.Redis != nil && a.opened.Redis.LoginFailing.Load())
		})),
	gauge("held_requests", "Requests that "+strings.Join(options.HoldingOptions(), " and ")+" hold now.", func() float64 { return float64(process.Held.Used()) }),
	gauge("memory_keys", "Keys whose state this process stores: those it decides itself, and those whose state Redis reported.",
		fromRunning(func(a *App) float64 { return float64(a.opened.Memory.Store.Len()) })),
	gauge("overrides", "Overrides that apply on this node: other limits, blocks and exemptions that operators have set.",
		fromRunning(func(a *App) float64 { return float64(a.overrides.Len()) })),
	gauge("overrides_stale", "1 while overrides cannot be read from Redis, so that this node goes on with those that it has.",
		fromRunning(func(a *App) float64 { return oneIf(a.overrides.Stale()) })),
	gauge("webhook_queue", "Events that wait for the webhook's receiver, or are sent to it.",
		fromRunning(func(a *App) float64 { return float64(a.webhook.queued()) })),
}

func gauge(name, help string, value func() float64) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: metricsNamespace, Name: name, Help: help}, value)
}

// oneIf is 1 for yes, and 0 for no.
func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// fromRunning returns a function that reads a value of the running app, and 0 where there is none.
func fromRunning(value func(a *App) float64) func() float64 {
	return func() float64 {
		if a := apps.newest(); a != nil {
			return value(a)
		}
		return 0
	}
}

// challengeSeries are the series of challenges by outcome, once there are any: in a flood a page is shown for most requests.
var challengeSeries sync.Map

// countChallenge counts what became of a challenge.
func countChallenge(o challenge.Result) {
	series, found := challengeSeries.Load(o)
	if !found {
		series, _ = challengeSeries.LoadOrStore(o, challenges.WithLabelValues(string(o)))
	}
	if counter, ok := series.(prometheus.Counter); ok {
		counter.Inc()
	}
}

// browsersThatWait counts what became of browsers that may wait.
func browsersThatWait() adminapi.PageBrowsers {
	count := func(o challenge.Result) int64 { return storepool.CounterValue(challenges.WithLabelValues(string(o))) }
	return adminapi.PageBrowsers{Shown: count(challenge.Shown), Passed: count(challenge.Passed), Cookieless: count(challenge.Cookieless)}
}

// registerMetrics adds the metrics to a configuration's registry.
func registerMetrics(registry prometheus.Registerer) error {
	all := []prometheus.Collector{storepool.Decisions, storeDuration, storeErrors, refundErrors, dataLosses, batchSize,
		blockedTotal, challenges, storepool.InvalidValues, storepool.SettledUnits, storepool.LeasedUnits, storepool.Bans,
		storepool.UnmatchedCountIf, memoryOverflows, storepool.WaitSeconds, byPolicy{}, webhookDeliveries,
		crawlerRequests, crawlerLookups}
	var errs []error
	for _, c := range slices.Concat(all, gauges) {
		if err := registry.Register(c); err != nil && !errors.As(err, new(prometheus.AlreadyRegisteredError)) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// observeBatch counts a batch that was sent to Redis, decided or failed.
func observeBatch(size int, took time.Duration) {
	redisSeconds.Observe(took.Seconds())
	batchSize.Observe(float64(size))
}

// byPolicy collects what this node runs, what waits here, has looked, and was denied a reserve, by policy. It asks the stores when it is read, so that a
// request costs nothing for it, and a policy for which none runs or waits is shown with 0.
type byPolicy struct{}

var (
	runningDesc = prometheus.NewDesc(prometheus.BuildFQName(metricsNamespace, "", "running"),
		"Units of the requests that this node runs now, by policy with max_concurrent.", []string{"policy"}, nil)
	waitingDesc = prometheus.NewDesc(prometheus.BuildFQName(metricsNamespace, "", "waiting"),
		"Requests that wait on this node now for others of their key to end, by policy with wait.", []string{"policy"}, nil)
	lookedDesc = prometheus.NewDesc(prometheus.BuildFQName(metricsNamespace, "", "looked_total"),
		"Requests that passed and took no unit, since the policy's count does not match them, by policy with count.", []string{"policy"}, nil)
	reserveDeniedDesc = prometheus.NewDesc(prometheus.BuildFQName(metricsNamespace, "", "reserve_denied_total"),
		"Requests that were refused since what is left is reserved for others, by policy with reserve.", []string{"policy"}, nil)
)

// Describe implements prometheus.Collector.
func (byPolicy) Describe(descs chan<- *prometheus.Desc) {
	descs <- runningDesc
	descs <- waitingDesc
	descs <- lookedDesc
	descs <- reserveDeniedDesc
}

// Collect implements prometheus.Collector.
func (byPolicy) Collect(collected chan<- prometheus.Metric) {
	a := apps.newest()
	if a == nil {
		return
	}
	stores := a.use()
	defer stores.End()
	names := a.opened.Memory.Names
	for _, policy := range names.CountingRunning() {
		collected <- prometheus.MustNewConstMetric(runningDesc, prometheus.GaugeValue, float64(stores.Running(policy)), policy)
	}
	for policy, looked := range names.Looked() {
		collected <- prometheus.MustNewConstMetric(lookedDesc, prometheus.CounterValue, float64(looked), policy)
	}
	for policy, denied := range names.ReserveDenied() {
		collected <- prometheus.MustNewConstMetric(reserveDeniedDesc, prometheus.CounterValue, float64(denied), policy)
	}
	waits := pool.Waits()
	for _, policy := range names.Waiting() {
		waits[policy] = waits[policy].And(waiting.Waits{}) // 0 where none waits
	}
	for policy, w := range waits {
		collected <- prometheus.MustNewConstMetric(waitingDesc, prometheus.GaugeValue, float64(w.Count), policy)
	}
}
