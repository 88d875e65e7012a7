package redisratelimit

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/policystats"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// renamedMetrics maps deprecated names to the current ones.
var renamedMetrics = map[string]string{
	"store_seconds":          "store_duration_seconds",
	"bad_values_total":       "invalid_values_total",
	"memory_evictions_total": "memory_overflows_total",
}

// gathered is a metric with all its series.
type gathered struct{ help, kind, series string }

// gatherMetrics gives every vector a series and gathers all metrics, by their names without the
// namespace. The registry is pedantic, as Caddy's is. Problems are promlint's.
func gatherMetrics(t *testing.T) (found map[string]gathered, problems []promlint.Problem) {
	t.Helper()
	observeBatch(3, 2*time.Millisecond)
	memorySeconds.Observe(1e-6)
	policystats.Decisions.WithLabelValues("metrics-test", "allowed", "memory").Inc()
	metrics.storeErrors.WithLabelValues("metrics-test").Inc()
	metrics.refundErrors.WithLabelValues("metrics-test").Inc()
	policystats.InvalidValues.WithLabelValues("metrics-test", "limit").Add(2)
	policystats.InvalidValues.WithLabelValues("metrics-test", "burst").Inc()
	registry := prometheus.NewPedanticRegistry()
	for range 2 { // registering again is no error
		redistest.Must(t, registerMetrics(registry))
	}
	families, err := registry.Gather()
	redistest.Must(t, err)
	found = make(map[string]gathered, len(families))
	for _, f := range families {
		name := strings.TrimPrefix(f.GetName(), metricsNamespace+"_")
		found[name] = gathered{f.GetHelp(), f.GetType().String(), fmt.Sprint(f.GetMetric())}
	}
	if problems, err = promlint.NewWithMetricFamilies(families).Lint(); err != nil {
		t.Fatal(err)
	}
	return found, problems
}

func TestMetrics_deprecatedNames(t *testing.T) {
	found, _ := gatherMetrics(t)
	for oldName, newName := range renamedMetrics {
		got, want := found[oldName], found[newName]
		want.help = "Deprecated: use " + metricsNamespace + "_" + newName + "."
		redistest.ErrorIf(t, got.series == "" || got != want, "%s is %+v, want %+v", oldName, got, want)
	}
	if values := found["bad_values_total"].series; !strings.Contains(values, "limit") || !strings.Contains(values, "burst") {
		t.Errorf("bad_values_total is %s, want both options", values)
	}
}

func TestMetrics_promlint(t *testing.T) {
	found, problems := gatherMetrics(t)
	for _, name := range []string{"decisions_total", "store_duration_seconds", "store_errors_total", "refund_errors_total", "batch_size",
		"invalid_values_total", "memory_overflows_total", "memory_keys", "breaker_open", "held_requests"} {
		redistest.ErrorIf(t, found[name].series == "", "%s is missing", name)
		i := slices.IndexFunc(problems, func(p promlint.Problem) bool { return p.Metric == metricsNamespace+"_"+name })
		if i >= 0 {
			t.Errorf("%s: %s", name, problems[i].Text)
		}
	}
}
