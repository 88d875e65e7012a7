package caddytest

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// metric returns the value of a series in Caddy's metrics, 0 where it is missing. Labels are in
// alphabetical order, as in Prometheus's format.
func (n *node) metric(t testing.TB, series string) float64 {
	t.Helper()
	text := n.send(t, "GET", n.Admin+"/metrics", "").body
	found := regexp.MustCompile(`(?m)^caddy_redis_ratelimit_` + regexp.QuoteMeta(series) + ` (\S+)$`).FindStringSubmatch(text)
	if found == nil {
		return 0
	}
	value, err := strconv.ParseFloat(found[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// checkMetric waits for a value, because some are counted after the response was sent.
func (n *node) checkMetric(t testing.TB, series string, want float64) {
	t.Helper()
	redistest.WaitFor(t, series+" is as it should be", func() error {
		if got := n.metric(t, series); got != want {
			return fmt.Errorf("it is %v, want %v", got, want)
		}
		return nil
	})
}

func TestMetrics_reloadsAndOutages(t *testing.T) {
	server := redistest.Start(t)
	text := config("redis_ratelimit {\nredis redis://"+server.Addr+"\n}", "redis_ratelimit /a {query.k} 2 24h {\nname tight\n}\nredis_ratelimit /b same 1000 24h {\nfail_mode closed\nname wide\n}"+showDecision)
	n := start(t, text)
	waitForRedis(t, n, "/b")
	wide := n.metric(t, `decisions_total{decision="allowed",policy="wide",source="redis"}`)
	for range 2 {
		n.get(t, "/a?k=secretkey")
	}
	n.reload(t, text)
	for range 3 {
		n.get(t, "/a?k=secretkey")
	}
	n.get(t, "/b")
	n.checkMetric(t, `decisions_total{decision="allowed",policy="tight",source="redis"}`, 2)
	n.checkMetric(t, `decisions_total{decision="denied",policy="tight",source="redis"}`, 1)
	n.checkMetric(t, `decisions_total{decision="denied",policy="tight",source="deny_cache"}`, 2)
	n.checkMetric(t, `decisions_total{decision="allowed",policy="wide",source="redis"}`, wide+1)
	n.checkMetric(t, "breaker_open", 0)
	n.checkMetric(t, "memory_keys", 1) // wide is closed in outages, so that no state of it is stored
	if batches := n.metric(t, "batch_size_count"); batches < 4 || n.metric(t, `store_duration_seconds_count{store="redis"}`) != batches {
		t.Errorf("%v batches, %v of them timed", batches, n.metric(t, `store_duration_seconds_count{store="redis"}`))
	}
	server.Kill()
	n.get(t, "/b")
	n.get(t, "/a?k=another")
	n.checkMetric(t, "breaker_open", 1)
	n.checkMetric(t, `decisions_total{decision="failed_closed",policy="wide",source="redis"}`, 1)
	n.checkMetric(t, `decisions_total{decision="allowed",policy="tight",source="fallback"}`, 1)
	if n.metric(t, `store_errors_total{kind="refused"}`)+n.metric(t, `store_errors_total{kind="connection"}`) == 0 || n.metric(t, `store_errors_total{kind="breaker"}`) == 0 {
		t.Error("the errors of the outage are not counted")
	}
	if text := n.send(t, "GET", n.Admin+"/metrics", "").body; strings.Contains(text, "secretkey") {
		t.Error("a client's key is in the metrics")
	}
	server.Run(t)
	waitForRedis(t, n, "/b")
	n.checkMetric(t, "breaker_open", 0)
}

func TestMemory_full(t *testing.T) {
	n := start(t, config("redis_ratelimit {\nmemory {\nmax_keys 100\n}\n}", "redis_ratelimit {query.k} 5 24h"+showDecision))
	for i := range 300 {
		checkAdmitted(t, n.get(t, fmt.Sprint("/?k=", i)), "memory")
	}
	n.checkMetric(t, "memory_keys", 100)
	n.checkMetric(t, "memory_overflows_total", 200)
	n.checkMetric(t, `store_duration_seconds_count{store="memory"}`, 300)
	warnings := n.log.lines(func(l logLine) bool { return ours(l) && strings.Contains(l.Message, "max_keys") })
	if len(warnings) != 1 || warnings[0].Level != "warn" {
		t.Errorf("warnings %v, want one", warnings)
	}
}

// TestLocalShare has no Redis from the beginning.
func TestLocalShare(t *testing.T) {
	n := start(t, config("redis_ratelimit {\nredis redis://"+redistest.FreeAddr(t)+"\nlocal_share 0.25\n}", "redis_ratelimit {query.k} 8 24h"+showDecision))
	for range 2 {
		checkAdmitted(t, n.get(t, "/?k=x"), "fallback")
	}
	if a := n.get(t, "/?k=x"); a.body != "denied fallback" || a.header.Get("X-Ratelimit-Limit") != "8" {
		t.Errorf("got %v; want it denied: a quarter of 8 is 2", a)
	}
}
