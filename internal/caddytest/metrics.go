package caddytest

import (
	"fmt"
	"regexp"
	"strconv"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// Metric returns the value of a series in Caddy's metrics, 0 where it is missing. Labels are in
// alphabetical order, as in Prometheus's format.
func (n *Node) Metric(t testing.TB, series string) float64 {
	t.Helper()
	line := regexp.MustCompile(`(?m)^caddy_redis_ratelimit_` + regexp.QuoteMeta(series) + ` (\S+)$`)
	found := line.FindStringSubmatch(n.Send(t, "GET", n.Admin+"/metrics", "").Body)
	if found == nil {
		return 0
	}
	return assert.NoError(strconv.ParseFloat(found[1], 64))(t)
}

// CheckMetric waits for a value, because some are counted after the response was sent.
func (n *Node) CheckMetric(t testing.TB, series string, want float64) {
	t.Helper()
	assert.Retry(t, series+" is as it should be", func() (again bool, seen any) {
		value := n.Metric(t, series)
		return value != want, fmt.Sprintf("%v, want %v", value, want)
	})
}
