package redisratelimit

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

// This file is the handler's part of policies that count running requests. A request runs from its decision
// until the handlers behind this one have returned: those of streams and of proxied WebSockets return when
// these end.

// keepRunning keeps checks that were decided together until the request ends, if one of them counts running
// requests. Those of a request that was denied end as well: they have nothing to return.
func (h *Handler) keepRunning(p *responseWriter, checks []limiter.Check) {
	if !h.countsRunning || !countRunning(checks) {
		return
	}
	if a := p.awaited; len(a.running) == 0 {
		a.running = checks
	} else {
		a.running = append(a.running[:len(a.running):len(a.running)], checks...)
	}
}

// use begins a handler's use of the stores, and makes room for what may follow its decision.
func (p *responseWriter) use(h *Handler) {
	p.stores = h.app.use()
	if h.settles || h.countsRunning {
		p.awaited = new(awaited)
	}
}

// endIdle ends the use of the stores if nothing is refunded, charged or ended later: a connection that was handed
// over may live for hours.
func (p *responseWriter) endIdle() {
	if a := p.awaited; p.stores != nil && (a == nil || len(a.passed)+len(a.running) == 0) {
		p.stores.End()
		p.stores = nil
	}
}

// end ends the request for the policies that count it, and its use of the stores, whatever became of the
// handlers.
func (p *responseWriter) end() {
	if a := p.awaited; a != nil {
		if len(a.running) > 0 {
			p.stores.EndRunning(a.running)
			a.running = nil
		}
		a.response.Refused = true // handlers that were called have left no check
		p.settle()
	}
	p.endIdle()
}

// countRunning reports whether one of the checks is of a policy that counts running requests.
func countRunning(checks []limiter.Check) bool {
	for i := range checks {
		if checks[i].Policy.CountsRunning() {
			return true
		}
	}
	return false
}

// runningUnits collects what this node runs by policy. It asks the store when it is read, so that a request
// costs nothing for it, and a policy without running requests is shown with 0.
type runningUnits struct{}

var runningDesc = prometheus.NewDesc(prometheus.BuildFQName(metricsNamespace, "", "running"),
	"Units of the requests that this node runs now, by policy with max_concurrent.", []string{"policy"}, nil)

// Describe implements prometheus.Collector.
func (runningUnits) Describe(descs chan<- *prometheus.Desc) { descs <- runningDesc }

// Collect implements prometheus.Collector.
func (runningUnits) Collect(collected chan<- prometheus.Metric) {
	a := apps.newest()
	if a == nil {
		return
	}
	stores := a.use()
	defer stores.End()
	for _, policy := range a.opened.Memory.Names.CountingRunning() {
		collected <- prometheus.MustNewConstMetric(runningDesc, prometheus.GaugeValue, float64(stores.Running(policy)), policy)
	}
}
