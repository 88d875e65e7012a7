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
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// crowd sends requests of 64 clients at once, each a few times, in turn to each node. It returns the
// number of responses with 200. All others must be 429.
func crowd(t *testing.T, path string, each int, nodes ...*caddytest.Node) int {
	t.Helper()
	const clients = 64
	var admitted atomic.Int64
	var group sync.WaitGroup
	for i := range clients {
		group.Go(func() {
			for j := range each {
				n := nodes[(i+j)%len(nodes)]
				a, err := n.Try(http.MethodGet, n.URL+path, "")
				if a.Status == http.StatusOK && a.Body == "allowed redis" {
					admitted.Add(1)
				} else if err != nil || a.Status != http.StatusTooManyRequests || !a.DeniedByRedis() {
					t.Errorf("got %v, %v", a, err)
				}
			}
		})
	}
	group.Wait()
	return int(admitted.Load())
}

// TestSharing_twoNodes uses a window of a day, in which a bucket drains one unit in a quarter of an hour,
// and a window of a minute where the algorithm admits exactly the limit in it.
func TestSharing_twoNodes(t *testing.T) {
	t.Parallel()
	site := ""
	windows := map[string][]string{}
	for _, algorithm := range limiter.Algorithms() {
		windows[algorithm] = []string{"24h"}
		if slices.Contains([]string{"sliding_window_counter", "sliding_window_log", "fixed_window"}, algorithm) {
			windows[algorithm] = []string{"24h", "1m"}
		}
		for _, window := range windows[algorithm] {
			site += fmt.Sprintf("redis_ratelimit /%[1]s-%[2]s {query.k} 100 %[2]s {\nname %[1]s-%[2]s\nalgorithm %[1]s\n}\n", algorithm, window)
		}
	}
	global := caddytest.SharedRedis(t)
	first, second := caddytest.Start(t, caddytest.Config(global, site+caddytest.ShowDecision)), caddytest.Start(t, caddytest.Config(global, site+caddytest.ShowDecision))
	for _, algorithm := range limiter.Algorithms() {
		for _, window := range windows[algorithm] {
			t.Run(algorithm+" "+window, func(t *testing.T) {
				length := assert.NoError(time.ParseDuration(window))(t)
				admitted := withinOneWindow(t, length, func(key string) int {
					return crowd(t, "/"+algorithm+"-"+window+"?k="+key, 4, first, second)
				})
				assert.ErrorIf(t, admitted != 100, "%d requests passed, want 100", admitted)
			})
		}
	}
}

// withinOneWindow makes a count. It repeats it with another key if a fixed window of that length ended meanwhile.
func withinOneWindow(t *testing.T, window time.Duration, count func(key string) int) int {
	t.Helper()
	for attempt := range 5 {
		before := time.Now().Truncate(window)
		admitted := count(fmt.Sprint("client-", attempt))
		if time.Now().Truncate(window).Equal(before) {
			return admitted
		}
	}
	t.Fatalf("counting took longer than the window of %v", window)
	return 0
}

func TestMetrics_reloadsAndOutages(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	text := caddytest.Config(caddytest.PatientRedis(server), "redis_ratelimit /a {query.k} 2 24h {\nname tight\n}\nredis_ratelimit /b same 1000 24h {\nfail_mode closed\nname wide\n}"+caddytest.ShowDecision)
	n := caddytest.Start(t, text)
	caddytest.WaitForRedis(t, n, "/b")
	wide := n.Metric(t, `decisions_total{decision="allowed",policy="wide",source="redis"}`)
	n.GetTimes(t, 2, "/a?k=secretkey")
	n.Reload(t, text)
	n.GetTimes(t, 3, "/a?k=secretkey")
	n.Get(t, "/b")
	n.CheckMetric(t, `decisions_total{decision="allowed",policy="tight",source="redis"}`, 2)
	const denied = `decisions_total{decision="denied",policy="tight",source=`
	asked, remembered := n.Metric(t, denied+`"redis"}`), n.Metric(t, denied+`"deny_cache"}`)
	assert.ErrorIf(t, asked == 0 || asked+remembered != 3, "Redis denied %v requests, the deny cache %v; want 3 together", asked, remembered)
	n.CheckMetric(t, `decisions_total{decision="allowed",policy="wide",source="redis"}`, wide+1)
	n.CheckMetric(t, "breaker_open", 0)
	n.CheckMetric(t, "memory_keys", 1) // wide is closed in outages, so that no state of it is stored
	batches := n.Metric(t, "batch_size_count")
	assert.ErrorIf(t, batches < 4 || n.Metric(t, `store_duration_seconds_count{store="redis"}`) != batches, "%v batches, %v of them timed", batches, n.Metric(t, `store_duration_seconds_count{store="redis"}`))
	server.Kill()
	n.Get(t, "/b")
	n.Get(t, "/a?k=another")
	n.CheckMetric(t, "breaker_open", 1)
	n.CheckMetric(t, `decisions_total{decision="failed_closed",policy="wide",source="redis"}`, 1)
	n.CheckMetric(t, `decisions_total{decision="allowed",policy="tight",source="fallback"}`, 1)
	assert.ErrorIf(t, n.Metric(t, `store_errors_total{kind="refused"}`)+n.Metric(t, `store_errors_total{kind="connection"}`) == 0 || n.Metric(t, `store_errors_total{kind="breaker"}`) == 0, "the errors of the outage are not counted")
	caddytest.CheckHidden(t, "the metrics", n.Send(t, "GET", n.Admin+"/metrics", "").Body, "secretkey")
	server.Run(t)
	caddytest.WaitForRedis(t, n, "/b")
	n.CheckMetric(t, "breaker_open", 0)
}

func TestMemory_full(t *testing.T) {
	t.Parallel()
	n := caddytest.Start(t, caddytest.Config("redis_ratelimit {\nmemory {\nmax_keys 100\n}\n}", "redis_ratelimit {query.k} 5 24h"+caddytest.ShowDecision))
	for i := range 300 {
		n.Get(t, fmt.Sprint("/?k=", i)).Want(t, http.StatusOK, "allowed memory")
	}
	n.CheckMetric(t, "memory_keys", 100)
	n.CheckMetric(t, "memory_overflows_total", 200)
	warnings := n.Log.Lines(func(l caddytest.LogLine) bool { return caddytest.Ours(l) && strings.Contains(l.Message, "max_keys") })
	assert.ErrorIf(t, len(warnings) != 1 || warnings[0].Level != "warn", "warnings %v, want one", warnings)
}

// TestLocalShare has no Redis from the beginning.
func TestLocalShare(t *testing.T) {
	n := caddytest.WithoutRedis(t, "local_share 25%", "redis_ratelimit {query.k} 8 24h"+caddytest.ShowDecision)
	n.WantTimes(t, 2, "/?k=x", http.StatusOK, "allowed fallback")
	n.Get(t, "/?k=x").Want(t, 0, "denied fallback", "X-Ratelimit-Limit: 8") // denied: a quarter of 8 is 2
}

// TestCost_budget sends requests of 25 senders at once through two Caddys, whose estimates are at least their
// costs. What the backend has served never costs more than the budget, on Redis and in one process.
func TestCost_budget(t *testing.T) {
	const senders = 25
	requests := assert.Rounds(250, 1000)
	budget := int64(20 * requests)
	caddytest.OnBothStores(t, func(t *testing.T, option, source string) {
		nodes := []*caddytest.Node{caddytest.Start(t, caddytest.Config("", ""))}
		if source == "redis" {
			nodes = append(nodes, caddytest.Start(t, caddytest.Config("", "")))
		}
		for _, algorithm := range []string{"sliding_window_counter", "sliding_window_log", "fixed_window", "token_bucket"} {
			var spent, served atomic.Int64
			upstream := caddytest.Serve(t, func(w http.ResponseWriter, r *http.Request) {
				cost, err := strconv.ParseInt(r.URL.Query().Get("cost"), 10, 64)
				if err != nil {
					t.Error(err)
				}
				served.Add(1)
				sum := spent.Add(cost)
				assert.ErrorIf(t, sum > budget, "%s, %s: %d units were served of %d", source, algorithm, sum, budget)
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
			for _, n := range nodes {
				n.Reload(t, site)
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
			refunded, want := 0.0, float64(estimated.Load()-spent.Load())
			assert.Retry(t, "the rest of the estimates is refunded", func() (again bool, seen any) { // no response waits for that
				refunded = 0
				for _, n := range nodes {
					refunded += n.Metric(t, `settled_units_total{direction="refunded",policy="`+strings.ReplaceAll(algorithm, "_", "-")+`"}`)
				}
				return refunded != want, fmt.Sprintf("%.0f units were refunded, want %.0f", refunded, want)
			})
			t.Logf("%s, %-22s: budget %d, offered %d, estimated %d of %d served, cost %d, refunded %.0f, denied %d", source, algorithm,
				budget, offered.Load(), estimated.Load(), served.Load(), spent.Load(), refunded, denied.Load())
			assert.ErrorIf(t, denied.Load() == 0 || spent.Load() < budget*9/10, "%d were denied, %d units were served of %d", denied.Load(), spent.Load(), budget)
		}
	})
}

// TestCost_outage kills Redis while responses run. Refunds are lost and counted, the rest of higher costs
// is charged when Redis is back.
func TestCost_outage(t *testing.T) {
	upstream := caddytest.NewHolder(t)
	n, server := caddytest.OnRedis(t, "timeout 10s", `redis_ratelimit {
		name budget
		key {query.k}
		limit 1000
		window 400d
		algorithm fixed_window
		weight 100
		cost {http.reverse_proxy.header.X-Tokens-Used} 100
	}
	reverse_proxy `+upstream.Addr)
	await := beginAll(t, upstream, n, "/?k=less&tokens=40", "/?k=more&tokens=250")
	server.Kill()
	n.AwaitBreaker(t, "/quick?k=other")
	upstream.EndAll()
	await()
	n.CheckMetric(t, `refund_errors_total{kind="breaker"}`, 1) // a refund that is not applied
	lines := n.Log.Lines(func(l caddytest.LogLine) bool { return caddytest.Ours(l) && strings.Contains(l.Message, "refunds") })
	assert.ErrorIf(t, len(lines) != 1 || lines[0].Level != "warn" || strings.Contains(lines[0].Text, "less"), "the log has %v", lines)
	server.Run(t)
	n.WaitForRefund(t, "budget", "more", 1000-150) // this Redis is empty
	n.WaitForRefund(t, "budget", "less", 1000)
	caddytest.CheckOutageLog(t, n)
}
