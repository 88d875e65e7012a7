package reliability

import (
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// TestChallenge_outage has a client of many passes flood two nodes while Redis stops and comes back. Together it gets
// no more than its limit and those of the passes, in the outage at most so much of each node.
func TestChallenge_outage(t *testing.T) {
	t.Parallel()
	const bound = 5 + 4*5
	for _, outage := range outages {
		t.Run(outage.name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			text := caddytest.Quietly(caddytest.Config(caddytest.RedisAt(server.Addr, "timeout 1s"), `redis_ratelimit {
				name site
				limit 5
				window 1h
				algorithm sliding_window_log
				challenge 4
			}`+caddytest.ShowDecision))
			nodes := []*caddytest.Node{caddytest.Start(t, text), caddytest.Start(t, text)}
			var admitted atomic.Int64
			count := func(a caddytest.Response) {
				if a.Status == http.StatusOK {
					admitted.Add(1)
				}
			}
			visitors := make([]*caddytest.Visitor, 40)
			for i := range visitors {
				visitors[i] = &caddytest.Visitor{Node: nodes[i%2]}
			}
			each := func(act func(v *caddytest.Visitor)) {
				var acting sync.WaitGroup
				for _, v := range visitors {
					acting.Go(func() { act(v) })
				}
				acting.Wait()
			}
			assert.Retry(t, "both nodes have the secret", func() (again bool, seen any) {
				for _, v := range visitors[:2] {
					a, err := v.Navigate(v.URL)
					assert.Must(t, err)
					if count(a); caddytest.WaitingLink(a) == "" {
						return true, a
					}
				}
				return false, nil
			})
			each(func(v *caddytest.Visitor) { // each gets a pass, and takes from it once
				for tries := 0; v.Cookies["rl-pass"] == "" && !t.Failed(); tries++ { // a slow Redis leaves a busy node its own quota
					a, err := v.Open("/", 1)
					assert.ErrorIf(t, err != nil || tries > 50, "%v, %v", a, err)
					count(a)
				}
			})
			stop := make(chan struct{})
			flood := sync.WaitGroup{}
			flood.Go(func() {
				each(func(v *caddytest.Visitor) {
					for i := 0; ; i++ {
						select {
						case <-stop:
							return
						default:
						}
						if a, err := v.Load(http.MethodGet, nodes[i%2].URL); err == nil {
							count(a)
						}
					}
				})
			})
			outage.fail(t, server)
			<-time.After(outageLength)
			for _, n := range nodes {
				assert.Retry(t, "the node decides by itself", func() (again bool, seen any) { return len(n.Log.Outages()) == 0, n.Log.Lines(caddytest.Ours) })
			}
			during := admitted.Load()
			outage.comeBack(t, server)
			for _, n := range nodes {
				assert.Retry(t, "Redis decides again", func() (again bool, seen any) { return len(n.Log.Recoveries()) == 0, n.Log.Lines(caddytest.Ours) })
			}
			close(stop)
			flood.Wait()
			t.Logf("%d admitted by the end of the outage, %d in all; the bound is %d", during, admitted.Load(), bound)
			assert.ErrorIf(t, admitted.Load() < bound/2 || during > 2*bound, "%d admitted by the end of the outage; want at most %d", during, 2*bound)
			if outage.name == "paused" {
				assert.ErrorIf(t, admitted.Load() > 2*bound, "%d admitted in all; want at most %d", admitted.Load(), 2*bound)
			}
		})
	}
}
