package reliability

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

func TestMetrics_reloadsAndOutages(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	text := caddytest.Config(caddytest.PatientRedis(server), "redis_ratelimit /a {query.k} 2 24h {\nname tight\n}\nredis_ratelimit /b same 1000 24h {\nfail_mode closed\nname wide\n}"+caddytest.ShowDecision)
	n := caddytest.Start(t, text)
	caddytest.WaitForRedis(t, n, "/b")
	wide := n.Metric(t, `decisions_total{decision="allowed",policy="wide",source="redis"}`)
	for range 2 {
		n.Get(t, "/a?k=secretkey")
	}
	n.Reload(t, text)
	for range 3 {
		n.Get(t, "/a?k=secretkey")
	}
	n.Get(t, "/b")
	n.CheckMetric(t, `decisions_total{decision="allowed",policy="tight",source="redis"}`, 2)
	n.CheckMetric(t, `decisions_total{decision="denied",policy="tight",source="redis"}`, 1)
	n.CheckMetric(t, `decisions_total{decision="denied",policy="tight",source="deny_cache"}`, 2)
	n.CheckMetric(t, `decisions_total{decision="allowed",policy="wide",source="redis"}`, wide+1)
	n.CheckMetric(t, "breaker_open", 0)
	n.CheckMetric(t, "memory_keys", 1) // wide is closed in outages, so that no state of it is stored
	if batches := n.Metric(t, "batch_size_count"); batches < 4 || n.Metric(t, `store_duration_seconds_count{store="redis"}`) != batches {
		t.Errorf("%v batches, %v of them timed", batches, n.Metric(t, `store_duration_seconds_count{store="redis"}`))
	}
	server.Kill()
	n.Get(t, "/b")
	n.Get(t, "/a?k=another")
	n.CheckMetric(t, "breaker_open", 1)
	n.CheckMetric(t, `decisions_total{decision="failed_closed",policy="wide",source="redis"}`, 1)
	n.CheckMetric(t, `decisions_total{decision="allowed",policy="tight",source="fallback"}`, 1)
	if n.Metric(t, `store_errors_total{kind="refused"}`)+n.Metric(t, `store_errors_total{kind="connection"}`) == 0 || n.Metric(t, `store_errors_total{kind="breaker"}`) == 0 {
		t.Error("the errors of the outage are not counted")
	}
	if text := n.Send(t, "GET", n.Admin+"/metrics", "").Body; strings.Contains(text, "secretkey") {
		t.Error("a client's key is in the metrics")
	}
	server.Run(t)
	caddytest.WaitForRedis(t, n, "/b")
	n.CheckMetric(t, "breaker_open", 0)
}

func TestMemory_full(t *testing.T) {
	t.Parallel()
	n := caddytest.Start(t, caddytest.Config("redis_ratelimit {\nmemory {\nmax_keys 100\n}\n}", "redis_ratelimit {query.k} 5 24h"+caddytest.ShowDecision))
	for i := range 300 {
		caddytest.CheckAdmitted(t, n.Get(t, fmt.Sprint("/?k=", i)), "memory")
	}
	n.CheckMetric(t, "memory_keys", 100)
	n.CheckMetric(t, "memory_overflows_total", 200)
	n.CheckMetric(t, `store_duration_seconds_count{store="memory"}`, 300)
	warnings := n.Log.Lines(func(l caddytest.LogLine) bool { return caddytest.Ours(l) && strings.Contains(l.Message, "max_keys") })
	if len(warnings) != 1 || warnings[0].Level != "warn" {
		t.Errorf("warnings %v, want one", warnings)
	}
}

// TestLocalShare has no Redis from the beginning.
func TestLocalShare(t *testing.T) {
	t.Parallel()
	n := caddytest.Start(t, caddytest.Config("redis_ratelimit {\nredis redis://"+redistest.FreeAddr(t)+"\nlocal_share 25%\n}", "redis_ratelimit {query.k} 8 24h"+caddytest.ShowDecision))
	for range 2 {
		caddytest.CheckAdmitted(t, n.Get(t, "/?k=x"), "fallback")
	}
	if a := n.Get(t, "/?k=x"); a.Body != "denied fallback" || a.Header.Get("X-Ratelimit-Limit") != "8" {
		t.Errorf("got %v; want it denied: a quarter of 8 is 2", a)
	}
}
