package admin

import (
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// waitingSite is a site whose requests wait for two places of their key.
const waitingSite = `redis_ratelimit {
		policy gpu {
			key {query.k}
			max_concurrent 2
			wait 1m 50 by {query.user}
		}
	}
	reverse_proxy `

// startWaiting starts a node on which two requests of the key a run and two wait. The requests end with the test.
func startWaiting(t *testing.T, option string) (*caddytest.Node, *caddytest.Holder) {
	t.Helper()
	upstream := caddytest.NewHolder(t)
	n := caddytest.Start(t, caddytest.Config(option, waitingSite+upstream.Addr))
	n.CheckMetric(t, `waiting{policy="gpu"}`, 0)
	for _, user := range []string{"1", "2"} {
		upstream.Begin(t, n, "/?k=a&user="+user)
	}
	for i, user := range []string{"1", "2"} {
		n.Hold(t, "/?k=a&user="+user)
		n.CheckMetric(t, `waiting{policy="gpu"}`, float64(i+1))
	}
	return n, upstream
}

// TestWaiting_metrics counts requests while they wait, and by what became of them.
func TestWaiting_metrics(t *testing.T) {
	caddytest.OnBothStores(t, func(t *testing.T, option, _ string) {
		n, upstream := startWaiting(t, option)
		n.CheckMetric(t, "held_requests", 2)
		n.CheckMetric(t, `wait_seconds_count{outcome="started",policy="gpu"}`, 2)
		upstream.EndOne()
		n.CheckMetric(t, `wait_seconds_count{outcome="started",policy="gpu"}`, 3)
		n.CheckMetric(t, `waiting{policy="gpu"}`, 1)
		upstream.EndAll()
		n.CheckMetric(t, `wait_seconds_count{outcome="started",policy="gpu"}`, 4)
		n.CheckMetric(t, `waiting{policy="gpu"}`, 0)
		n.CheckMetric(t, `running{policy="gpu"}`, 0)
	})
}
