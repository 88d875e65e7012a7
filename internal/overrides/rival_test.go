package overrides

import (
	"errors"
	"sync"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/redis/dial"
)

// TestLive_Put_rivals has nodes set and remove the override of one client at once. Each gets the entry that
// it has set itself, also where another one has removed it since.
func TestLive_Put_rivals(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var running sync.WaitGroup
	for i := range 4 {
		l := newNode(t, plain, dial.Standalone, server.Addr)
		target := l.Target("api", key("acme"))
		running.Go(func() {
			for n := range int64(100) {
				limit := 1000*int64(i+1) + n
				e, err := l.Put(t.Context(), target, Rule{Action: Limit, Limit: limit}, 0)
				if err != nil || e == nil || e.Limit != limit {
					t.Errorf("node %d has set %d and gets %+v, %v", i, limit, e, err)
					return
				}
				if err := l.Remove(t.Context(), target); err != nil && !errors.Is(err, ErrAbsent) {
					t.Error(err)
					return
				}
			}
		})
	}
	running.Wait()
}
