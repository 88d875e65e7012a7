package reliability

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// TestReload_requestsInFlight loads other Redis settings while requests wait for their upstream. Their
// refunds and charges go to the store that decided them.
func TestReload_requestsInFlight(t *testing.T) {
	t.Parallel()
	const requests = 20
	var arrived sync.WaitGroup
	arrived.Add(requests)
	answer := make(chan struct{})
	upstream := caddytest.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/slow") {
			arrived.Done()
			<-answer
		}
		w.Header().Set("X-Tokens-Used", "3")
	})
	server := redistest.Start(t)
	site := `redis_ratelimit /slow {
		policy attempts {
			key same
			limit 100
			window 24h
			algorithm gcra
			count_if status 401
		}
		policy budget {
			key same
			limit 1000
			window 24h
			algorithm fixed_window
			cost {http.reverse_proxy.header.X-Tokens-Used}
		}
	}
	reverse_proxy ` + upstream
	n := caddytest.Start(t, caddytest.Config(caddytest.PatientRedis(server), site))
	var answered sync.WaitGroup
	for range requests {
		answered.Go(func() {
			if a := n.Get(t, "/slow"); a.Status != http.StatusOK {
				t.Errorf("got %v", a)
			}
		})
	}
	arrived.Wait()
	n.WaitForRefund(t, "attempts", "same", 100-requests)
	n.Reload(t, caddytest.Config(strings.Replace(caddytest.PatientRedis(server), "timeout 10s", "timeout 9s", 1), site))
	close(answer)
	answered.Wait()
	n.WaitForRefund(t, "attempts", "same", 100)
	n.WaitForRefund(t, "budget", "same", 1000-3*requests)
}
