package requests

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// TestWaiting_room has more bodies wait than a process may hold, of many addresses: a quarter of the room is taken, and the
// limits of those and other addresses find what they need of their bodies. None that waits is refused.
func TestWaiting_room(t *testing.T) {
	t.Parallel()
	const addresses, each, quarter = 12, 2, 256 << 10
	holder := caddytest.NewHolder(t)
	n := caddytest.Start(t, caddytest.Config(`servers { trusted_proxies static 127.0.0.1/32 }
		redis_ratelimit { memory { max_bodies 1MiB } }`, `@calls path /hold /call
		redis_ratelimit @calls { policy places { key everyone; max_concurrent 1; wait 10m 300 } }
		redis_ratelimit /login { name logins; key {form.email}; limit 1000000; window 1h; on_empty_key reject }
		reverse_proxy /hold `+holder.Addr+"\nreverse_proxy "+digester(t)))
	r := holder.Begin(t, n, "/hold")
	address := func(i int) string { return fmt.Sprint("X-Forwarded-For: 203.0.113.", i%addresses) }
	body, answers := strings.Repeat("c", 60<<10), make(chan caddytest.Response, addresses*each)
	for i := range addresses * each {
		go func() {
			a, err := n.Try(http.MethodPost, n.URL+"/call", body, address(i), ofJSON)
			if err != nil {
				t.Error(err)
			}
			answers <- a
		}()
	}
	n.CheckMetric(t, "held_requests", addresses*each)
	assert.Retry(t, "bodies are held", func() (again bool, seen any) {
		held := n.Metric(t, "body_bytes")
		return held < quarter-float64(len(body)), held
	})
	for i := range 2 * addresses { // those that wait, and others
		from := fmt.Sprint("X-Forwarded-For: 203.0.113.", i)
		n.Send(t, http.MethodPost, n.URL+"/login", "email=bob&padding="+strings.Repeat("x", 50<<10), from, ofForm).Want(t, http.StatusOK, caddytest.Any)
	}
	held := n.Metric(t, "body_bytes")
	assert.ErrorIf(t, held > quarter, "%v bytes are held, want a quarter at most", held)
	holder.EndOne()
	<-r.Ended
	for range addresses * each {
		(<-answers).Want(t, http.StatusOK, fmt.Sprintf("%d %x <nil>", len(body), sha256.Sum256([]byte(body))))
	}
	checkNothingRuns(t, n, "everyone", 1)
	n.CheckMetric(t, "body_bytes", 0)
}
