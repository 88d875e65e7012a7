package chaos

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// manyKeys returns how many clients a node admits in one outage.
func manyKeys() int64 { return lasting[int64](100_000, 500) }

// TestChaos_settlement_keys admits a unit each of many clients in an outage, none of whom comes again. All
// are settled, at the pace that docs/reliability.md names.
func TestChaos_settlement_keys(t *testing.T) {
	beside(t)
	server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "no")
	n := caddytest.Start(t, caddytest.Quietly(caddytest.Config("redis_ratelimit {\nredis redis://"+server.Addr+"\n}",
		"redis_ratelimit {query.k} 10 24h {\nname many\nalgorithm fixed_window\n}\n"+caddytest.ShowDecision)))
	caddytest.WaitForRedis(t, n, "/?k=ready")
	end := kill(t, server)
	redistest.WaitFor(t, "the outage begins", func() error {
		if a := n.Get(t, "/?k=ready"); a.Body == "allowed redis" {
			return fmt.Errorf("%v", a)
		}
		return nil
	})
	admitOnce(t, n, manyKeys())
	end()
	const settled = `settled_units_total{direction="outage",policy="many"}`
	began, arrived := time.Now(), int64(0)
	for arrived < manyKeys() {
		next := min(manyKeys(), arrived+100) // within the time of WaitFor, on a busy machine too
		redistest.WaitFor(t, fmt.Sprintf("%d keys are settled", next), func() error {
			if arrived = int64(n.Metric(t, settled)); arrived < next {
				return fmt.Errorf("%d are", arrived)
			}
			return nil
		})
	}
	took := time.Since(began)
	t.Logf("%d keys were settled in %v: %.0f a second", arrived, took, float64(arrived)/took.Seconds())
	if units := int64(windowUnits(t, server, "rl:{m*}:many:*")); units != manyKeys() {
		t.Errorf("Redis has counted %d units; want %d", units, manyKeys())
	}
	const perSecond = 4 * 128
	if least := time.Duration(manyKeys()/perSecond-1) * time.Second; took < least {
		t.Errorf("%d keys were settled in %v; want at least %v", arrived, took, least)
	}
	if arrived > manyKeys()+1 { // with the key that has found the outage
		t.Errorf("%d units were settled; want %d", arrived, manyKeys()+1)
	}
}

// admitOnce sends a request of each of so many clients.
func admitOnce(t *testing.T, n *caddytest.Node, clients int64) {
	t.Helper()
	var next atomic.Int64
	var senders sync.WaitGroup
	for range stormClients {
		senders.Go(func() {
			for i := next.Add(1); i <= clients; i = next.Add(1) {
				if a, err := n.Try(http.MethodGet, fmt.Sprintf("%s/?k=m%d", n.URL, i), ""); err != nil || a.Body != "allowed fallback" {
					t.Errorf("client %d: %v, %v", i, a, err)
					return
				}
			}
		})
	}
	senders.Wait()
}
