package docs

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// plansOf are the plans that the application knows, by API key; of one key it says none.
var plansOf = map[string]string{"key-of-acme": "gold", "key-of-bolt": "free", "key-of-core": ""}

// servePlan answers whose an API key is, and which plan that customer has.
func servePlan(w http.ResponseWriter, r *http.Request) bool {
	if r.URL.Path != "/plan" {
		return false
	}
	key := r.Header.Get("X-Api-Key")
	plan, found := plansOf[key]
	if !found {
		w.WriteHeader(http.StatusUnauthorized)
		return true
	}
	w.Header().Set("X-Customer", strings.TrimPrefix(key, "key-of-"))
	if plan != "" {
		w.Header().Set("X-Plan", plan)
	}
	w.WriteHeader(http.StatusNoContent)
	return true
}

// recipePlans has customers write plans and names of their own, which change nothing.
func recipePlans(t *testing.T, e recipeEnv) {
	for key, limit := range map[string]int64{"key-of-acme": 600, "key-of-bolt": 60, "key-of-core": 60} {
		for i, forged := range []string{"X-Plan: gold", "X-Plan: free", "X-Customer: other"} {
			caddytest.CheckQuota(t, e.Get(t, "/", "X-Api-Key: "+key, forged), limit, limit-1-int64(i))
		}
	}
	e.Get(t, "/", "X-Api-Key: invented", "X-Customer: acme").Want(t, http.StatusUnauthorized, caddytest.Any, caddytest.NoQuota)
}

// recipeTimeOfDay asks by which limit requests count now.
func recipeTimeOfDay(t *testing.T, e recipeEnv) {
	limitAt := func(at time.Time) int64 {
		if at.Hour() >= 22 || at.Hour() < 7 {
			return 600
		}
		return 60
	}
	before := limitAt(time.Now())
	a := e.Get(t, "/")
	limits := []string{fmt.Sprint(before), fmt.Sprint(limitAt(time.Now()))}
	assert.ErrorIf(t, !slices.Contains(limits, a.Header.Get("X-Ratelimit-Limit")), "got %v; want the limit %s", a, limits)
}

func recipeAllDay(t *testing.T, e recipeEnv) { caddytest.CheckQuota(t, e.Get(t, "/"), 600, 599) }

// recipeUnlogged has a refusal leave no line in the access log, which has what passed.
func recipeUnlogged(t *testing.T, e recipeEnv) {
	e.spend(t, 100, 100*minutely, "/refused")
	e.Get(t, "/", "Accept: text/html").Want(t, http.StatusTooManyRequests, caddytest.Any)
	assert.ErrorIf(t, !strings.Contains(e.Log.String(), `"status":200`), "the access log has nothing")
	assert.ErrorIf(t, strings.Contains(e.Log.String(), `"status":429`), "the access log has a refusal")
	assert.ErrorIf(t, e.Metric(t, `decisions_total{decision="denied",policy="default"`) == 0, "the metrics have no refusal")
}

// recipeWorkers has two zones of Workers, which share an address, and visitors that write their headers.
func recipeWorkers(t *testing.T, e recipeEnv) {
	const address = "CF-Connecting-IP: 2a06:98c0:3600::103"
	for i, zone := range []string{"acme.example", "bolt.example"} {
		for left := int64(299); left > 296; left-- {
			caddytest.CheckQuota(t, e.Get(t, "/", address, "CF-Worker: "+zone), 300, left)
		}
		caddytest.CheckQuota(t, e.Get(t, "/", fmt.Sprint("CF-Connecting-IP: 203.0.113.", i)), 100, 99)
		caddytest.CheckQuota(t, e.Get(t, "/", fmt.Sprint("CF-Connecting-IP: 203.0.113.", i), "CF-Worker: "+zone), 100, 98)
	}
}

// TestMetricsDoc_pushed has a collector get the metrics that docs/metrics.md says are pushed to it.
func TestMetricsDoc_pushed(t *testing.T) {
	t.Parallel()
	page := caddytest.ReadFile(t, "docs/metrics.md")
	const option, variable = "metrics { otlp }", "OTEL_EXPORTER_OTLP_ENDPOINT"
	assert.FatalIf(t, !strings.Contains(page, option) || !strings.Contains(page, variable), "docs/metrics.md does not say how metrics are pushed")
	var pushed atomic.Bool
	collector := caddytest.Serve(t, func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // which comes again, if it broke off
		if strings.Contains(string(body), "caddy_redis_ratelimit_decisions_total") {
			pushed.Store(true)
		}
	})
	n := caddytest.Start(t, caddytest.Config("metrics {\notlp\n}", "redis_ratelimit {client_ip} 5 1h\nrespond Hello."),
		variable+"=http://"+collector, "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf", "OTEL_METRIC_EXPORT_INTERVAL=100")
	n.Get(t, "/").Want(t, http.StatusOK, "Hello.")
	assert.WaitFor(t, "the collector has the metrics", func() error {
		if !pushed.Load() {
			return fmt.Errorf("it has none")
		}
		return nil
	})
}
