package reliability

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// TestCost_budget sends requests of 25 senders at once through two Caddys, whose estimates are at least their
// costs. What the backend has served never costs more than the budget, on Redis and in one process.
func TestCost_budget(t *testing.T) {
	const senders = 25
	requests := redistest.Rounds(250, 1000)
	budget := int64(20 * requests)
	caddytest.OnBothStores(t, func(t *testing.T, option, source string) {
		for _, algorithm := range []string{"sliding_window_counter", "sliding_window_log", "fixed_window", "token_bucket"} {
			var spent, served atomic.Int64
			upstream := caddytest.Serve(t, func(w http.ResponseWriter, r *http.Request) {
				cost, err := strconv.ParseInt(r.URL.Query().Get("cost"), 10, 64)
				if err != nil {
					t.Error(err)
				}
				served.Add(1)
				sum := spent.Add(cost)
				redistest.ErrorIf(t, sum > budget, "%s, %s: %d units were served of %d", source, algorithm, sum, budget)
				w.Header().Set("X-Tokens-Used", strconv.FormatInt(cost, 10))
				_, _ = io.WriteString(w, "tokens")
			})
			site := caddytest.Config(option, `redis_ratelimit {
				name `+strings.ReplaceAll(algorithm, "_", "-")+`
				key same
				limit `+fmt.Sprint(budget)+`
				window 2160h
				algorithm `+algorithm+`
				weight {query.estimate} 1
				cost {http.reverse_proxy.header.X-Tokens-Used} 1
			}
			reverse_proxy `+upstream)
			nodes := []*caddytest.Node{caddytest.Start(t, site)}
			if source == "redis" {
				nodes = append(nodes, caddytest.Start(t, site))
			}
			var running sync.WaitGroup
			var offered, estimated, denied atomic.Int64
			for sender := range senders {
				running.Go(func() {
					random := rand.New(rand.NewPCG(uint64(sender), 3))
					for i := range requests / senders {
						estimate := 1 + random.Int64N(100)
						cost := random.Int64N(estimate + 1)
						offered.Add(cost)
						a, err := nodes[(sender+i)%len(nodes)].Try(http.MethodGet, fmt.Sprintf("%s/?estimate=%d&cost=%d", nodes[(sender+i)%len(nodes)].URL, estimate, cost), "")
						switch {
						case err != nil:
							t.Error(err)
						case a.Status == http.StatusOK:
							estimated.Add(estimate)
						default:
							denied.Add(1)
						}
					}
				})
			}
			running.Wait()
			if algorithm == "fixed_window" || algorithm == "sliding_window_counter" {
				nodes[0].WaitForRefund(t, strings.ReplaceAll(algorithm, "_", "-"), "same", budget-spent.Load())
			}
			refunded := 0.0
			for _, n := range nodes {
				refunded += n.Metric(t, `settled_units_total{direction="refunded",policy="`+strings.ReplaceAll(algorithm, "_", "-")+`"}`)
			}
			t.Logf("%s, %-22s: budget %d, offered %d, estimated %d of %d served, cost %d, refunded %.0f, denied %d", source, algorithm,
				budget, offered.Load(), estimated.Load(), served.Load(), spent.Load(), refunded, denied.Load())
			redistest.ErrorIf(t, refunded != float64(estimated.Load()-spent.Load()), "%.0f units were refunded, want %d", refunded, estimated.Load()-spent.Load())
			redistest.ErrorIf(t, denied.Load() == 0 || spent.Load() < budget*9/10, "%d were denied, %d units were served of %d", denied.Load(), spent.Load(), budget)
		}
	})
}

// TestCost_reload loads other Redis settings, and then a configuration without limits, while responses
// stream. Their costs go to the store that took the estimates.
func TestCost_reload(t *testing.T) {
	t.Parallel()
	const requests = 10
	upstream := caddytest.NewHolder(t)
	server := redistest.Start(t)
	site := `redis_ratelimit { name budget; key same; limit 1000; window 24h; weight 50; cost {http.reverse_proxy.header.X-Tokens-Used} 50 }
	reverse_proxy ` + upstream.Addr + ` { flush_interval -1 }`
	n := caddytest.Start(t, caddytest.Config(caddytest.PatientRedis(server), site))
	await := upstream.BeginAll(t, n, slices.Repeat([]string{"/stream?tokens=10", "/stream?tokens=90"}, requests/2)...)
	n.WaitForRefund(t, "budget", "same", 1000-50*requests)
	n.Reload(t, caddytest.Config(strings.Replace(caddytest.PatientRedis(server), "timeout 10s", "timeout 9s", 1), site))
	n.Reload(t, caddytest.Config(caddytest.PatientRedis(server), "respond none"))
	upstream.EndAll()
	await()
	n.Reload(t, caddytest.Config(caddytest.PatientRedis(server), site))
	n.WaitForRefund(t, "budget", "same", 1000-5*10-5*90)
}

// TestCost_outage kills Redis while responses run. Refunds are lost and counted, the rest of higher costs
// is charged when Redis is back.
func TestCost_outage(t *testing.T) {
	upstream := caddytest.NewHolder(t)
	n, server := caddytest.OnRedis(t, "timeout 500ms", `redis_ratelimit {
		name budget
		key {query.k}
		limit 1000
		window 24h
		algorithm fixed_window
		weight 100
		cost {http.reverse_proxy.header.X-Tokens-Used} 100
	}
	reverse_proxy `+upstream.Addr)
	await := upstream.BeginAll(t, n, "/?k=less&tokens=40", "/?k=more&tokens=250")
	server.Kill()
	n.AwaitBreaker(t, "/quick?k=other")
	upstream.EndAll()
	await()
	n.CheckMetric(t, `refund_errors_total{kind="breaker"}`, 1) // a refund that is not applied
	server.Run(t)
	n.WaitForRefund(t, "budget", "more", 1000-150) // this Redis is empty
	n.WaitForRefund(t, "budget", "less", 1000)
}
