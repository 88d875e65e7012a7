package chaos

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// overridesOf returns the keys of the overrides that a node lists.
func overridesOf(t *testing.T, n *caddytest.Node) map[string]bool {
	t.Helper()
	a := n.Ask(t, http.MethodGet, "overrides", "")
	keys := map[string]bool{}
	for _, o := range caddytest.ParseJSON[struct{ Overrides []struct{ Key string } }](t, a).Overrides {
		keys[o.Key] = true
	}
	return keys
}

// TestOverrides_failover sets overrides at one node while a replica takes over and another node reloads. All
// that were confirmed apply on both nodes afterwards.
func TestOverrides_failover(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(t *testing.T, p pair){
		"by command": func(t *testing.T, p pair) { do(t, p.sentinel, "sentinel", "failover", "main") },
		"killed":     func(_ *testing.T, p pair) { p.master.Kill() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := startPair(t, 0)
			config := func(timeout int) string {
				return caddytest.Quietly(caddytest.Config(fmt.Sprintf("redis_ratelimit {\n%s\ntimeout %dms\n}", p.watched().redis, timeout), caddytest.LimitedSite))
			}
			a, b := caddytest.Start(t, config(300)), caddytest.Start(t, config(300))
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			var mu sync.Mutex
			var confirmed []string
			var running sync.WaitGroup
			running.Go(func() {
				for i := 0; ctx.Err() == nil; i++ {
					<-time.After(requestPace() / 2)
					key := fmt.Sprint("key", i%500)
					r, err := a.Try(http.MethodPost, a.Admin+"/redis_ratelimit/override", `{"policy":"api","key":"`+key+`","block":true}`)
					switch {
					case err != nil:
						t.Error(err)
						return
					case r.Status == http.StatusOK:
						mu.Lock()
						confirmed = append(confirmed, key)
						mu.Unlock()
					case r.Status != http.StatusServiceUnavailable:
						t.Errorf("got %v", r)
						return
					}
				}
			})
			more := func(what string) {
				mu.Lock()
				before := len(confirmed)
				mu.Unlock()
				redistest.Retry(t, what, func() (again bool, seen any) {
					mu.Lock()
					defer mu.Unlock()
					return len(confirmed) < before+20, "none is set"
				})
			}
			more("overrides are set")
			fail(t, p)
			b.Reload(t, config(310))
			redistest.WaitFor(t, "the replica is the master", func() error {
				return checkInfo(t, p.replica, "replication", "role:master")
			})
			more("overrides are set at the new master")
			stop()
			running.Wait()
			redistest.WaitFor(t, "all are on both nodes", func() error {
				for _, n := range []*caddytest.Node{a, b} {
					keys := overridesOf(t, n)
					for _, key := range confirmed {
						if !keys[key] {
							return fmt.Errorf("%s of %d is missing among %d", key, len(confirmed), len(keys))
						}
					}
				}
				return nil
			})
			for _, key := range []string{confirmed[0], confirmed[len(confirmed)/2], confirmed[len(confirmed)-1]} {
				r := b.Get(t, "/", "X-Key: "+key)
				redistest.ErrorIf(t, r.Body != "denied override", "%s: got %v", key, r)
			}
		})
	}
}
