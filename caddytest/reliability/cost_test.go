package reliability

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
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
	var arrived sync.WaitGroup
	arrived.Add(requests)
	answer := make(chan struct{})
	upstream := caddytest.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Tokens-Used", r.URL.Query().Get("tokens"))
		_, _ = io.WriteString(w, "begins ")
		_ = http.NewResponseController(w).Flush()
		arrived.Done()
		<-answer
		_, _ = io.WriteString(w, "and ends")
	})
	server := redistest.Start(t)
	site := `redis_ratelimit { name budget; key same; limit 1000; window 24h; weight 50; cost {http.reverse_proxy.header.X-Tokens-Used} 50 }
	reverse_proxy ` + upstream + ` { flush_interval -1 }`
	n := caddytest.Start(t, caddytest.Config(caddytest.PatientRedis(server), site))
	var answered sync.WaitGroup
	for i := range requests {
		answered.Go(func() {
			n.Get(t, "/?tokens="+strconv.Itoa(10+10*(i%2)*8)).Want(t, http.StatusOK, "begins and ends")
		})
	}
	arrived.Wait()
	n.WaitForRefund(t, "budget", "same", 1000-50*requests)
	n.Reload(t, caddytest.Config(strings.Replace(caddytest.PatientRedis(server), "timeout 10s", "timeout 9s", 1), site))
	n.Reload(t, caddytest.Config(caddytest.PatientRedis(server), "respond none"))
	close(answer)
	answered.Wait()
	n.Reload(t, caddytest.Config(caddytest.PatientRedis(server), site))
	n.WaitForRefund(t, "budget", "same", 1000-5*10-5*90)
}

// TestCost_outage kills Redis while responses run. Refunds are lost and counted, the rest of higher costs
// is charged when Redis is back.
func TestCost_outage(t *testing.T) {
	t.Parallel()
	answer := make(chan struct{})
	var arrived sync.WaitGroup
	arrived.Add(2)
	upstream := caddytest.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		if tokens := r.URL.Query().Get("tokens"); tokens != "" {
			arrived.Done()
			<-answer
			w.Header().Set("X-Tokens-Used", tokens)
		}
	})
	server := redistest.Start(t)
	n := caddytest.Start(t, caddytest.Config("redis_ratelimit {\nredis redis://"+server.Addr+"\ntimeout 500ms\n}", `redis_ratelimit {
		name budget
		key {query.k}
		limit 1000
		window 24h
		algorithm fixed_window
		weight 100
		cost {http.reverse_proxy.header.X-Tokens-Used} 100
	}
	reverse_proxy `+upstream))
	var answered sync.WaitGroup
	for _, query := range []string{"?k=less&tokens=40", "?k=more&tokens=250"} {
		answered.Go(func() {
			n.Get(t, "/"+query).Want(t, http.StatusOK, caddytest.Any)
		})
	}
	arrived.Wait()
	server.Kill()
	redistest.Retry(t, "the breaker is open", func() (again bool, seen any) {
		n.Get(t, "/?k=other")
		return n.Metric(t, "breaker_open") != 1, "it is closed"
	})
	close(answer)
	answered.Wait()
	redistest.Retry(t, "the refund is counted as not applied", func() (again bool, seen any) {
		got := n.Metric(t, `refund_errors_total{kind="breaker"}`)
		return got != 1, got
	})
	server.Run(t)
	n.WaitForRefund(t, "budget", "more", 1000-150) // this Redis is empty
	n.WaitForRefund(t, "budget", "less", 1000)
}
