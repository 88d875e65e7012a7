package caddytest

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// Metric returns the sum of the series in Caddy's metrics that have a name and labels, 0 if there is none.
func (n *Node) Metric(t testing.TB, series string) (sum float64) {
	t.Helper()
	name, labels, _ := strings.Cut(strings.TrimSuffix(series, "}"), "{")
	lines := regexp.MustCompile(`(?m)^caddy_redis_ratelimit_` + regexp.QuoteMeta(name) + `(?:\{(.*)\})? (\S+)$`)
	for _, found := range lines.FindAllStringSubmatch(n.Send(t, "GET", n.Admin+"/metrics", "").Body, -1) {
		has := true
		for label := range strings.SplitSeq(labels, ",") {
			has = has && strings.Contains(found[1], label)
		}
		if has {
			sum += assert.NoError(strconv.ParseFloat(found[2], 64))(t)
		}
	}
	return sum
}

// CheckMetric waits for a value, because some are counted after the response was sent.
func (n *Node) CheckMetric(t testing.TB, series string, want float64) {
	t.Helper()
	assert.Retry(t, series+" is as it should be", func() (again bool, seen any) {
		value := n.Metric(t, series)
		return value != want, fmt.Sprintf("%v, want %v", value, want)
	})
}
