package requests

import (
	"context"
	"net/http"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// TestRefundWait has seven requests at once at a limit of 5 whose units may be refunded. Those that are denied may
// come back in a second, also after a reload, and not while the units stay because clients have left.
func TestRefundWait(t *testing.T) {
	t.Parallel()
	for name, option := range map[string]string{"count_if": "count_if status 401 403", "cost": "weight {query.weight} 1\ncost {http.reverse_proxy.header.X-Cost} 1"} {
		t.Run(name, func(t *testing.T) {
			caddytest.OnBothStores(t, func(t *testing.T, store, _ string) {
				holder := caddytest.NewHolder(t)
				site := func(more string) string {
					return caddytest.Config(store, `redis_ratelimit {query.k} 5 24h {
						name logins
						algorithm fixed_window
						headers x_ratelimit ietf
						`+option+`
					}
					`+more+`
					reverse_proxy `+holder.Addr)
				}
				n := caddytest.Start(t, site(""))
				ctx, leave := context.WithCancel(t.Context())
				begin := func(key string, requests int) <-chan *http.Response {
					answers := make(chan *http.Response, requests)
					for range requests {
						request := caddytest.GetRequest(ctx, t, n.URL+"/?k="+key)
						go func() {
							response, err := n.Client.Do(request)
							for err != nil && ctx.Err() == nil { // a server that a reload ends may close a new connection
								response, err = n.Client.Do(request)
							}
							if err == nil {
								_ = response.Body.Close()
								answers <- response
							}
						}()
					}
					return answers
				}
				soon := func(header http.Header) {
					t.Helper()
					redistest.ErrorIf(t, header.Get("Retry-After") != "1" || header.Get("X-Ratelimit-Remaining") != "0" || header.Get("Ratelimit") != `"logins";r=0;t=1`, "got %v; want it to come back in a second", header)
				}
				answers := begin("right", 7)
				for range 2 {
					soon((<-answers).Header)
				}
				holder.WaitRunning(t, 5)
				n.Reload(t, site("header X-Reloaded yes"))
				soon(n.Get(t, "/?k=right").Header)

				begin("left", 5)
				holder.WaitRunning(t, 10)
				soon(n.Get(t, "/?k=left").Header)
				leave()
				holder.WaitRunning(t, 0)
				redistest.Retry(t, "the units of the clients that left stay", func() (again bool, seen any) {
					a := n.Get(t, "/?k=left")
					return a.Status != http.StatusTooManyRequests || a.Header.Get("Retry-After") == "1", a
				})
			})
		})
	}
}

// TestRefundWait_nothing_returns has a crowd at a limit that wrong passwords have used up.
func TestRefundWait_nothing_returns(t *testing.T) {
	caddytest.OnEachStore(t, logIn("fixed_window", ""), func(t *testing.T, n *caddytest.Node, _ string) {
		for range 5 {
			n.Get(t, "/401?k=full")
		}
		for _, a := range n.Crowd(t, 100, "/200?k=full") {
			redistest.ErrorIf(t, a.Header.Get("Retry-After") == "1", "got %v; want the wait for the window", a)
		}
	})
}
