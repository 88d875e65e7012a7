package redisratelimit

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storepool"
)

// gathered is a metric with all its series.
type gathered struct{ help, kind, series string }

// gatherMetrics gives every vector a series and gathers all metrics, by their names without the
// namespace. The registry is pedantic, as Caddy's is. Problems are promlint's.
func gatherMetrics(t *testing.T) (found map[string]gathered, problems []promlint.Problem) {
	t.Helper()
	observeBatch(3, 2*time.Millisecond)
	memorySeconds.Observe(1e-6)
	storepool.Decisions.WithLabelValues("metrics-test", "allowed", "memory").Inc()
	storeErrors.WithLabelValues("metrics-test").Inc()
	refundErrors.WithLabelValues("metrics-test").Inc()
	storepool.InvalidValues.WithLabelValues("metrics-test", "limit", "value").Add(2)
	storepool.InvalidValues.WithLabelValues("metrics-test", "burst", "value").Inc()
	registry := prometheus.NewPedanticRegistry()
	for range 2 { // registering again is no error
		assert.Must(t, registerMetrics(registry))
	}
	families := assert.NoError(registry.Gather())(t)
	found = make(map[string]gathered, len(families))
	for _, f := range families {
		name := strings.TrimPrefix(f.GetName(), metricsNamespace+"_")
		found[name] = gathered{f.GetHelp(), f.GetType().String(), fmt.Sprint(f.GetMetric())}
	}
	return found, assert.NoError(promlint.NewWithMetricFamilies(families).Lint())(t)
}

func TestMetrics_promlint(t *testing.T) {
	found, problems := gatherMetrics(t)
	for _, name := range []string{"decisions_total", "store_duration_seconds", "store_errors_total", "refund_errors_total", "batch_size",
		"invalid_values_total", "memory_overflows_total", "memory_keys", "breaker_open", "held_requests"} {
		assert.ErrorIf(t, found[name].series == "", "%s is missing", name)
		i := slices.IndexFunc(problems, func(p promlint.Problem) bool { return p.Metric == metricsNamespace+"_"+name })
		if i >= 0 {
			t.Errorf("%s: %s", name, problems[i].Text)
		}
	}
}

// TestStoreDuration_memory counts the decisions in the process that are timed, of which there is one in 64 on average. The
// bounds are seven standard deviations off.
func TestStoreDuration_memory(t *testing.T) {
	registry := prometheus.NewRegistry()
	assert.Must(t, registry.Register(storeDuration))
	timed := func() (count uint64) {
		for _, family := range assert.NoError(registry.Gather())(t) {
			for _, series := range family.GetMetric() {
				if series.GetLabel()[0].GetValue() == "memory" {
					count += series.GetHistogram().GetSampleCount()
				}
			}
		}
		return count
	}
	server := loadServer(t, "", `{"handler":"redis_ratelimit","policies":[{"name":"timed","limit":1000000,"window":"1h"}]},`)
	r, before := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1/", nil), timed()
	for range 200 * 64 {
		server.ServeHTTP(&sink{header: http.Header{}}, r)
	}
	added := timed() - before
	assert.ErrorIf(t, added < 100 || added > 300, "%d of 12,800 decisions are timed, want 200 on average", added)
}

// nameList is a registry that lists the names and labels of metrics.
type nameList struct {
	prometheus.Registerer
	lines []string
}

var described = regexp.MustCompile(`fqName: "([^"]+)".*variableLabels: (\{.*\})\}$`)

func (l *nameList) Register(c prometheus.Collector) error {
	all := make(chan *prometheus.Desc, 100)
	c.Describe(all)
	close(all)
	for d := range all {
		parts := described.FindStringSubmatch(d.String())
		if parts == nil {
			return fmt.Errorf("no name in %s", d)
		}
		l.lines = append(l.lines, parts[1]+parts[2])
	}
	return nil
}

// TestMetrics_kept compares names and labels with those that stay within a major version.
func TestMetrics_kept(t *testing.T) {
	t.Parallel()
	var list nameList
	assert.Must(t, registerMetrics(&list))
	slices.Sort(list.lines)
	compareGolden(t, filepath.Join("testdata", "metrics.txt"), strings.Join(list.lines, "\n")+"\n")
}

// series counts those of a metric.
func series(c prometheus.Collector) (n int) {
	all := make(chan prometheus.Metric)
	go func() {
		c.Collect(all)
		close(all)
	}()
	for range all {
		n++
	}
	return n
}

// TestPolicyNames_of_configurations_that_came_and_went loads configurations that each name another policy, beside
// one that goes on: what is kept stays as much as one configuration needs.
func TestPolicyNames_of_configurations_that_came_and_went(t *testing.T) {
	h := newHandler(t, policyJSON("stays", "5"))
	h.limiter.Counters[0].Count(limiter.OutcomeAllowed, limiter.SourceMemory)
	h.limiter.Counters[0].CountInvalid("limit", "value")
	decisions, invalid := series(storepool.Decisions), series(storepool.InvalidValues)
	for i := range assert.Rounds(100, 2_000) {
		ctx, end := newContext(t, "")
		brief := loadHandler(t, ctx, policyJSON(fmt.Sprint("brief", i), "5"))
		again := loadHandler(t, ctx, policyJSON("stays", "5"))
		for _, o := range []limiter.Outcome{limiter.OutcomeAllowed, limiter.OutcomeDenied, limiter.OutcomeFailedOpen, limiter.OutcomeFailedClosed} {
			brief.limiter.Counters[0].Count(o, limiter.SourceRedis)
		}
		brief.limiter.Counters[0].CountInvalid("burst", "value")
		assert.FatalIf(t, again.limiter.Counters[0] != h.limiter.Counters[0], "the policy that stays begins anew")
		end()
		brief.limiter.Counters[0].Count(limiter.OutcomeDenied, limiter.SourceMemory) // a request that outlives it
		brief.limiter.Counters[0].CountInvalid("weight", "value")
	}
	if got := series(storepool.Decisions); got != decisions {
		t.Errorf("%d series of decisions, before %d", got, decisions)
	}
	if got := series(storepool.InvalidValues); got != invalid {
		t.Errorf("%d series of invalid values, before %d", got, invalid)
	}
}

// TestPolicyNames_keep_counts has a handler deny a client, be removed, and come back.
func TestPolicyNames_keep_counts(t *testing.T) {
	newHandler(t, policyJSON("stays", "5"))
	for _, want := range []int{http.StatusOK, http.StatusTooManyRequests} {
		ctx, end := newContext(t, "")
		h := loadHandler(t, ctx, `{"policies":[{"name":"returns","key":"same","limit":1,"window":"24h"}]}`)
		response := fetch(t, serve(t, hello, h).URL)
		assert.ErrorIf(t, response.StatusCode != want, "got %v, want %d", response.Status, want)
		end()
	}
}

// checkLeft asks a handler and checks what is left.
func checkLeft(t *testing.T, h http.Handler, want string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	got := w.Header().Get("X-Ratelimit-Remaining")
	assert.ErrorIf(t, got != want, "%q is left, want %s", got, want)
}

// TestProcess_with_two_apps has both serve at once, as tests of other modules do. They count together by name and need
// not agree about its limit.
func TestProcess_with_two_apps(t *testing.T) {
	var servers [2]http.Handler
	var ends [2]func()
	var started [2]*App
	for i, limit := range []string{"5", "6"} {
		ctx, end := newContext(t, "")
		h := loadHandler(t, ctx, policyJSON("p", limit))
		assert.Must(t, h.app.Start())
		hello := func(http.ResponseWriter, *http.Request) error { return nil }
		servers[i], ends[i], started[i] = serve(t, hello, h).Config.Handler, end, h.app
	}
	checkLeft(t, servers[0], "4")
	checkLeft(t, servers[1], "4")
	ends[1]()
	assert.ErrorIf(t, apps.newest() != started[0], "the app that goes on is not asked")
	checkLeft(t, servers[0], "2")
	ends[0]()
	checkReferences(t, 0, 0)
}

// TestProcess_that_loads_one_after_another counts on until Caddy stops. What loads afterwards counts anew.
func TestProcess_that_loads_one_after_another(t *testing.T) {
	const handler = `{"handler":"redis_ratelimit","policies":[{"name":"p","limit":5,"window":"24h"}]},`
	load := func() *caddyhttp.Server { return loadServer(t, "", handler) }
	checkLeft(t, load(), "4")
	checkLeft(t, load(), "3")
	assert.Must(t, caddy.Stop())
	checkReferences(t, 0, 0)
	checkLeft(t, load(), "4")
}
