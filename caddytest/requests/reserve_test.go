package requests

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// leavingSite has exports leave two of five units to all else.
const leavingSite = `
	@export path /export
	route {
		redis_ratelimit @export { name api; key {query.k}; limit 5; window 24h; reserve 40%; headers x_ratelimit ietf }
		@rest not path /export
		redis_ratelimit @rest { name api; key {query.k}; limit 5; window 24h; headers x_ratelimit ietf }
		header Reason "{http.redis_ratelimit.reason}"
		respond "{http.redis_ratelimit.decision}"
	}
	handle_errors { header Reason "{http.redis_ratelimit.reason}"; respond "{http.redis_ratelimit.decision}" }`

// TestReserve has the less important be denied first, and told that it is for others.
func TestReserve(t *testing.T) {
	caddytest.OnEachStore(t, leavingSite, func(t *testing.T, n *caddytest.Node, _ string) {
		for i := range 3 {
			caddytest.CheckQuota(t, n.Get(t, "/export?k=a"), 5, int64(2-i))
		}
		for range 3 { // also from the deny cache
			a := n.Get(t, "/export?k=a").Want(t, 0, caddytest.Any, "Reason: reserve", `RateLimit: "api";r=0;t=*`)
			caddytest.CheckQuota(t, caddytest.CheckRefusal(t, a, http.StatusTooManyRequests), 5, 0)
		}
		state := stateOf(t, n, "api", "a")
		assert.ErrorIf(t, state["remaining"] != 2.0 || state["retry_after"] != 0.0, "state of a quota of which 2 are left to others: %v", state)
		exported, checkout := n.Explain(t, "/export?k=a", "{}"), n.Explain(t, "/checkout?k=a", "{}")
		p := exported.Policies[0]
		assert.ErrorIf(t, exported.Decision != "denied" || p.Reason != "reserve" || p.Reserve != 2 || p.Remaining != 0 || p.RetryAfter <= 0, "explained: %+v", exported)
		rest := checkout.Policies
		assert.ErrorIf(t, checkout.Decision != "allowed" || rest[len(rest)-1].Remaining != 2 || rest[len(rest)-1].Reserve != 0, "explained: %+v", checkout)
		n.Ratelimit(t, "explain", "--url", n.URL+"/export?k=a").Want(t, 4, "denied by reserve", "RESERVE")
		n.Ratelimit(t, "policies").Want(t, 0, " path /export, reserve 40%")
		caddytest.CheckQuota(t, n.Get(t, "/checkout?k=a"), 5, 1)
		caddytest.CheckQuota(t, n.Get(t, "/checkout?k=a"), 5, 0)
		n.Get(t, "/checkout?k=a").Want(t, http.StatusTooManyRequests, caddytest.Any, "Reason: limit")
		n.Get(t, "/export?k=a").Want(t, http.StatusTooManyRequests, caddytest.Any)
	})
}

// TestReserve_of_any_limit has an operator and requests bring small limits along: a unit stays to take.
func TestReserve_of_any_limit(t *testing.T) {
	caddytest.OnEachStore(t, `redis_ratelimit { name api; key {query.k}; limit {query.l} 100; window 24h; reserve 50 }
	respond ok`, func(t *testing.T, n *caddytest.Node, _ string) {
		for _, c := range []struct {
			limit  string
			passes int
		}{{"", 50}, {"60", 10}, {"51", 1}, {"50", 1}, {"1", 1}} {
			path := "/?k=limit" + c.limit + "&l=" + c.limit
			n.WantTimes(t, c.passes, path, http.StatusOK, caddytest.Any)
			n.Get(t, path).Want(t, http.StatusTooManyRequests, caddytest.Any)
		}
		n.Ratelimit(t, "override", "--policy", "api", "--key", "overridden", "--limit", "3").Want(t, 0)
		n.Await(t, "/?k=overridden", 0, caddytest.Any, "X-Ratelimit-Limit: 3")
		n.Ratelimit(t, "reset", "--policy", "api", "--key", "overridden").Want(t, 0)
		n.Get(t, "/?k=overridden").Want(t, http.StatusOK, caddytest.Any)
		n.Get(t, "/?k=overridden").Want(t, http.StatusTooManyRequests, caddytest.Any)
	})
}

// TestLimit_unlimited has requests bring along that they are unlimited, and that they are blocked.
func TestLimit_unlimited(t *testing.T) {
	caddytest.OnBothStores(t, func(t *testing.T, option, source string) {
		n := caddytest.Start(t, caddytest.Config(option, `route {
			map {query.plan} {limit} { free 2; partner unlimited; banned 0; odd Unlimited; default "" }
			redis_ratelimit { name plan; key {query.k}; limit {limit} unlimited; window 24h; headers x_ratelimit ietf }
			respond "{http.redis_ratelimit.decision} {http.redis_ratelimit.source} {http.redis_ratelimit.limit}"
		}
		handle_errors {
			respond "{http.redis_ratelimit.decision} {http.redis_ratelimit.reason} {http.redis_ratelimit.source} {http.redis_ratelimit.limit} {http.redis_ratelimit.retry_after}"
		}`))
		n.WantTimes(t, 2, "/?plan=free&k=free", http.StatusOK, caddytest.Any)
		n.Get(t, "/?plan=free&k=free").Want(t, http.StatusTooManyRequests, caddytest.Any)
		for _, plan := range []string{"partner", "", "odd"} {
			n.WantTimes(t, 5, "/?plan="+plan+"&k="+plan, http.StatusOK, caddytest.Any, "X-Ratelimit-Limit:", "RateLimit:")
		}
		n.Get(t, "/?plan=banned&k=banned").Want(t, http.StatusTooManyRequests, "denied limit memory 0 -1", // a limit of 0
			"Retry-After:", "X-Ratelimit-Limit: 0", "X-Ratelimit-Remaining: 0", "X-Ratelimit-Reset:",
			"Cache-Control: no-store", `RateLimit-Policy: "plan";q=0`, `RateLimit: "plan";r=0`)
		n.CheckMetric(t, `decisions_total{decision="denied",policy="plan",source="memory"}`, map[string]float64{"memory": 2, "redis": 1}[source])
		n.CheckMetric(t, `invalid_values_total{option="limit",policy="plan"}`, 5) // odd
		for plan, want := range map[string]string{"partner": "unlimited", "banned": "denied", "free": "denied", "": "unlimited"} {
			e := n.Explain(t, "/?plan="+plan+"&k=free", "{}")
			assert.ErrorIf(t, len(e.Policies) != 1 || e.Policies[0].Decision != want, "plan %q is explained as %+v, want %s", plan, e, want)
		}
		n.Ask(t, http.MethodGet, "policies", "").
			Want(t, 0, `*"algorithm":"sliding_window_counter","limit_from":"{limit}","unlimited":true,"window":*`)
		n.Ratelimit(t, "policies").Want(t, 0, ", else unlimited")
		state := stateOf(t, n, "plan", "free")
		assert.ErrorIf(t, state["limit"] != nil || state["hint"] == nil, "state: %v", state)
		n.Ratelimit(t, "override", "--policy", "plan", "--key", "partner", "--limit", "7").Want(t, 0)
		n.Await(t, "/?plan=partner&k=partner", 0, caddytest.Any, "X-Ratelimit-Limit: 7")
		assert.Equal(t, stateOf(t, n, "plan", "partner")["limit"], any(7.0), "the limit of an overridden key")
	})
}

// TestLimit_zero_with_others has a limit of 0 beside another policy, which it leaves uncharged, as a dry run
// beside it, and as a policy that bans.
func TestLimit_zero_with_others(t *testing.T) {
	caddytest.OnEachStore(t, `redis_ratelimit {
		policy other { key {query.k}; limit 5; window 24h }
		policy plan { key {query.k}; limit {query.l} 5; window 24h; ban 1h }
		policy pretended { key {query.k}; limit {query.p} 5; window 24h; dry_run }
	}
	respond "{http.redis_ratelimit.dry_run}"`, func(t *testing.T, n *caddytest.Node, _ string) {
		n.WantTimes(t, 3, "/?k=a&l=0", http.StatusTooManyRequests, caddytest.Any, "Retry-After:")
		n.Get(t, "/?k=a&p=0").Want(t, http.StatusOK, "pretended", "X-Ratelimit-Remaining: 4")
		n.CheckMetric(t, `decisions_total{decision="dry_run_denied",policy="pretended",source="memory"}`, 1)
		assert.Equal(t, bannedFor(t, n, "plan", "a"), 0, "the ban by a limit of 0")
		for value, limit := range map[string]int{"-1": 5, "1.0": 5, "00": 0, " 3 ": 3, "0x0": 5, "unlimited ": 5, strconv.Itoa(1 << 60): 5} {
			n.Get(t, "/?k=v"+strconv.Itoa(len(value))+"&l="+strings.ReplaceAll(value, " ", "%20")).
				Want(t, 0, caddytest.Any, "X-Ratelimit-Limit: "+strconv.Itoa(limit))
		}
	})
}

// TestReserve_refunded has a lesser request's units refunded: its headers show what lesser ones could take.
func TestReserve_refunded(t *testing.T) {
	caddytest.OnEachStore(t, `redis_ratelimit { name api; key {query.k}; limit 5; window 24h; count_if status 401; reserve 2 }
	respond /401 401
	respond ok`, func(t *testing.T, n *caddytest.Node, _ string) {
		for range 3 {
			caddytest.CheckQuota(t, n.Get(t, "/?k=a"), 5, 3)
			n.WaitForRefund(t, "api", "a", 5)
		}
		for left := int64(2); left >= 0; left-- {
			caddytest.CheckQuota(t, n.Get(t, "/401?k=a"), 5, left)
		}
		caddytest.CheckRefusal(t, n.Get(t, "/401?k=a"), http.StatusTooManyRequests)
	})
}

// TestReserve_outage has Redis fail: lesser requests go on leaving room, with a share of it for a node's share.
func TestReserve_outage(t *testing.T) {
	n, server := caddytest.OnRedis(t, "timeout 10s\nlocal_share 50%", `redis_ratelimit {
		key {query.k}
		limit 20
		window 24h
		reserve 10
		fail_mode local
	}`+caddytest.ShowDecision)
	n.Get(t, "/?k=before").Want(t, http.StatusOK, "allowed redis")
	server.Kill()
	n.Await(t, "/?k=other", 0, "allowed fallback")
	n.WantTimes(t, 5, "/?k=outage", http.StatusOK, "allowed fallback")
	n.Get(t, "/?k=outage").Want(t, http.StatusTooManyRequests, "denied fallback")
}

// TestRefundWait has seven requests at once at a limit of 5 whose units may be refunded. Those that are denied may
// come back in a second, also after a reload, and not while the units stay because clients have left.
func TestRefundWait(t *testing.T) {
	t.Parallel()
	for name, option := range map[string]string{"count_if": "count_if status 401 403", "cost": "weight {query.weight} 1\ncost {http.reverse_proxy.header.X-Cost} 1"} {
		ietf := map[string]string{"count_if": `"logins";r=0;t=1`}[name] // a cost of its own has no unit there
		t.Run(name, func(t *testing.T) {
			caddytest.OnBothStores(t, func(t *testing.T, store, _ string) {
				holder := caddytest.NewHolder(t)
				site := func(more string) string {
					return caddytest.Config(store, `redis_ratelimit {query.k} 5 400d { name logins; algorithm fixed_window; headers x_ratelimit ietf; `+option+` }
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
					assert.ErrorIf(t, header.Get("Retry-After") != "1" || header.Get("X-Ratelimit-Remaining") != "0" || header.Get("Ratelimit") != ietf, "got %v; want it to come back in a second", header)
				}
				begin("right", 5)
				holder.WaitRunning(t, 5) // else a denied one of the same batch may be told before those that passed are noted
				answers := begin("right", 2)
				for range 2 {
					soon((<-answers).Header)
				}
				n.Reload(t, site("header X-Reloaded yes"))
				soon(n.Get(t, "/?k=right").Header)

				begin("left", 5)
				holder.WaitRunning(t, 10)
				soon(n.Get(t, "/?k=left").Header)
				leave()
				holder.WaitRunning(t, 0)
				assert.Retry(t, "the units of the clients that left stay", func() (again bool, seen any) {
					a := n.Get(t, "/?k=left")
					return a.Status != http.StatusTooManyRequests || a.Header.Get("Retry-After") == "1", a
				})
			})
		})
	}
}

// TestRefundWait_nothing_returns has a crowd at a limit that wrong passwords have used up.
func TestRefundWait_nothing_returns(t *testing.T) {
	caddytest.OnEachStore(t, logIn("fixed_window", newModel(t).addr), func(t *testing.T, n *caddytest.Node, _ string) {
		n.GetTimes(t, 5, "/401?k=full")
		for _, a := range n.Crowd(t, 100, "/200?k=full") {
			assert.ErrorIf(t, a.Header.Get("Retry-After") == "1", "got %v; want the wait for the window", a)
		}
	})
}
