package reliability

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// waitingSite is the site of runningSite, whose requests wait for a place.
func waitingSite(limit int, upstream string) string {
	return strings.Replace(runningSite(limit, upstream), "node_timeout 10m\n", "node_timeout 10m\nwait 10m\n", 1)
}

// beginWaiting sends so many requests, and returns once they wait. The function waits for their responses.
func beginWaiting(t *testing.T, n *caddytest.Node, times int, path string, headers ...string) (responses func() []caddytest.Response) {
	t.Helper()
	answers := tryWaiting(t, n, times, path, headers...)
	return func() []caddytest.Response {
		whole, cut := answers()
		assert.ErrorIf(t, cut > 0, "%d of %d requests to %s have no response", cut, times, path)
		return whole
	}
}

// tryWaiting is beginWaiting for requests of which some may have no response, and says how many.
func tryWaiting(t *testing.T, n *caddytest.Node, times int, path string, headers ...string) (responses func() (whole []caddytest.Response, cut int)) {
	t.Helper()
	held, answers := n.Metric(t, "held_requests"), make(chan *caddytest.Response, times)
	for range times {
		go func() {
			if a, err := n.Try(http.MethodGet, n.URL+path, "", headers...); err == nil {
				answers <- &a
			} else {
				answers <- nil
			}
		}()
	}
	n.CheckMetric(t, "held_requests", held+float64(times))
	return func() (whole []caddytest.Response, cut int) {
		for range times {
			if a := <-answers; a != nil {
				whole = append(whole, *a)
			} else {
				cut++
			}
		}
		return whole, cut
	}
}

// both returns the responses of two crowds.
func both(one, other func() []caddytest.Response) (responses func() []caddytest.Response) {
	return func() []caddytest.Response { return append(one(), other()...) }
}

// wantAll checks that each response has the status 200.
func wantAll(t *testing.T, responses []caddytest.Response, headers ...string) {
	t.Helper()
	for _, a := range responses {
		a.Want(t, http.StatusOK, caddytest.Any, headers...)
	}
}

// TestReload_waiting has requests wait over reloads: with the same settings, other settings of Redis, another policy, and
// none. They start when it is their turn, by the stores that they wait at, and leave nothing behind.
func TestReload_waiting(t *testing.T) {
	t.Parallel()
	server, upstream := redistest.Start(t), caddytest.NewHolder(t)
	global := caddytest.PatientRedis(server)
	text := caddytest.Config(global, waitingSite(1, upstream.Addr))
	n := caddytest.Start(t, text)
	waitForAnswer(t, n, "allowed redis")
	goroutines := n.Goroutines(t)
	for name, other := range map[string]string{
		"same settings": strings.Replace(text, "{http.redis_ratelimit.source}", "{http.redis_ratelimit.source}{query.none}", 1),
		"without wait":  caddytest.Config(global, runningSite(1, upstream.Addr)),
		"other Redis":   strings.Replace(text, "timeout 10s", "timeout 9s", 1),
		"in process":    caddytest.Config("", waitingSite(1, upstream.Addr)),
		"no policy":     caddytest.Config("", "respond none"),
	} {
		upstream.Begin(t, n, "/")
		waiting := beginWaiting(t, n, 2, "/quick")
		n.Reload(t, other)
		if name != "no policy" { // which has no metrics either
			n.CheckMetric(t, "held_requests", 2)
		}
		if name == "same settings" {
			later := beginWaiting(t, n, 1, "/quick")
			waiting = both(waiting, later)
		}
		upstream.EndOne()
		wantAll(t, waiting())
		n.Reload(t, text)
		n.WaitForRefund(t, "places", "same", 1)
		n.CheckMetric(t, "held_requests", 0)
	}
	awaitGoroutines(t, n, goroutines+6)
}

// TestOutage_waiting has requests wait while Redis goes and comes back without data, by each fail mode.
func TestOutage_waiting(t *testing.T) {
	t.Parallel()
	for mode, during := range map[string]string{"local": "", "open": "failed_open redis", "closed": "failed_closed redis"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			server, upstream := redistest.Start(t), caddytest.NewHolder(t)
			n := caddytest.Start(t, caddytest.Config(caddytest.RedisAt(server.Addr, "timeout 10s\nfail_mode "+mode), waitingSite(2, upstream.Addr)))
			caddytest.WaitForRedis(t, n, "/now")
			upstream.Begin(t, n, "/")
			upstream.Begin(t, n, "/stream")
			waiting := beginWaiting(t, n, 3, "/")
			server.Kill()
			most := 2
			switch mode {
			case "local": // one goes on to the next
				upstream.EndOne()
				n.CheckMetric(t, "held_requests", 2)
			case "open": // all start
				n.CheckMetric(t, "breaker_open", 1)
				n.CheckMetric(t, "held_requests", 0)
				upstream.WaitRunning(t, 5)
				waitForAnswer(t, n, during)
				most = 5
			case "closed": // who waits stays, who comes once the node knows of the outage is refused
				n.CheckMetric(t, "breaker_open", 1)
				waitForAnswer(t, n, during)
				upstream.EndOne()
				upstream.WaitRunning(t, 1)
				n.CheckMetric(t, "held_requests", 3)
			}
			server.Run(t)
			if mode == "closed" {
				n.CheckMetric(t, "held_requests", 2)
			}
			upstream.WaitRunning(t, most)
			upstream.EndAll()
			wantAll(t, waiting())
			waitForAnswer(t, n, "allowed redis")
			if _, got := upstream.Running(); got > most {
				t.Errorf("%d ran at once, want at most %d", got, most)
			}
			n.WaitForRefund(t, "places", "same", 2)
			n.CheckMetric(t, `running{policy="places"}`, 0)
		})
	}
}

// TestOutage_waiting_lost loses replies of Redis, and has them come late, while a crowd waits on two nodes. At the backend
// never run more than may, and all have their turn.
func TestOutage_waiting_lost(t *testing.T) {
	t.Parallel()
	server, upstream := redistest.Start(t), caddytest.NewHolder(t)
	proxy := redistest.NewProxy(t, server.Addr)
	options := "timeout 10s\nfail_mode closed"
	text := waitingSite(2, upstream.Addr)
	lossy := caddytest.Start(t, caddytest.Config(caddytest.RedisAt(proxy.Addr, options), text))
	other := caddytest.Start(t, caddytest.Config(caddytest.RedisAt(server.Addr, options), text))
	for _, n := range []*caddytest.Node{lossy, other} {
		caddytest.WaitForRedis(t, n, "/now")
	}
	upstream.Begin(t, lossy, "/")
	upstream.Begin(t, other, "/")
	waiting := []func() []caddytest.Response{beginWaiting(t, lossy, 8, "/"), beginWaiting(t, other, 8, "/")}
	for i := range 18 {
		switch i {
		case 2, 4, 6:
			proxy.CutNextReply()
		case 8:
			proxy.Delay(100 * time.Millisecond)
		case 14:
			proxy.Delay(0)
		}
		upstream.EndOne()
	}
	for _, responses := range waiting {
		wantAll(t, responses())
	}
	if _, most := upstream.Running(); most > 2 {
		t.Errorf("%d ran at once", most)
	}
	for _, n := range []*caddytest.Node{lossy, other} {
		n.WaitForRefund(t, "places", "same", 2)
		n.CheckMetric(t, `running{policy="places"}`, 0)
		n.CheckMetric(t, "held_requests", 0)
	}
}

// TestWaiting_limits has requests bring along their limits, which differ under one key.
func TestWaiting_limits(t *testing.T) {
	caddytest.OnBothStores(t, func(t *testing.T, option, _ string) {
		upstream := caddytest.NewHolder(t)
		site := strings.Replace(waitingSite(1, upstream.Addr), "max_concurrent 1", "max_concurrent {header.X-Places} 1", 1)
		n := caddytest.Start(t, caddytest.Config(option, site))
		upstream.Begin(t, n, "/")
		n.Get(t, "/now", "X-Places: 2").Want(t, http.StatusOK, caddytest.Any)
		n.Get(t, "/now", "X-Places: 0").Want(t, http.StatusTooManyRequests, caddytest.Any)
		var waiting []func() []caddytest.Response
		for i, places := range []string{"1", "3", "1", "2", "many"} {
			waiting = append(waiting, beginWaiting(t, n, 1, "/quick", "X-Places: "+places))
			n.CheckMetric(t, "held_requests", float64(i+1)) // also those with a higher limit, which are not first
		}
		upstream.EndOne()
		for _, responses := range waiting {
			wantAll(t, responses())
		}
		n.WaitForRefund(t, "places", "same", 1)
	})
}

// TestWaiting_besideOlder has a node whose requests wait beside one whose do not, on one Redis. Neither counts the requests of
// the other, nor takes what it keeps for damaged.
func TestWaiting_besideOlder(t *testing.T) {
	t.Parallel()
	server, upstream := redistest.Start(t), caddytest.NewHolder(t)
	global := caddytest.PatientRedis(server)
	old := caddytest.Start(t, caddytest.Config(global, runningSite(1, upstream.Addr)))
	n := caddytest.Start(t, caddytest.Config(global, waitingSite(1, upstream.Addr)))
	upstream.Begin(t, old, "/")
	upstream.Begin(t, n, "/")
	waiting := beginWaiting(t, n, 3, "/quick")
	for range 5 {
		old.Get(t, "/now").Want(t, http.StatusTooManyRequests, "denied *")
	}
	upstream.EndAll()
	wantAll(t, waiting())
	waitForAnswer(t, old, "allowed redis")
	for _, node := range []*caddytest.Node{old, n} {
		node.WaitForRefund(t, "places", "same", 1)
		assert.Equal(t, node.Metric(t, "store_errors_total"), 0.0, "the number of errors")
	}
}

// TestWaiting_storm has clients come and leave at once, by values that they invent, on two nodes. Each that stays is answered,
// and nothing is left behind.
func TestWaiting_storm(t *testing.T) {
	t.Parallel()
	server, upstream := redistest.Start(t), caddytest.NewHolder(t)
	site := strings.Replace(waitingSite(2, upstream.Addr), "wait 10m", "wait 10m 20 by {header.X-User}", 1)
	var nodes [2]*caddytest.Node
	for i := range nodes {
		nodes[i] = caddytest.Start(t, caddytest.Quietly(caddytest.Config(caddytest.PatientRedis(server), site)))
		caddytest.WaitForRedis(t, nodes[i], "/now")
	}
	goroutines := nodes[0].Goroutines(t)
	var group sync.WaitGroup
	for i := range 60 {
		n := nodes[i%2]
		group.Go(func() {
			for j := range assert.Rounds(20, 400) {
				ctx, leave := context.WithCancel(t.Context())
				request := caddytest.GetRequest(ctx, t, n.URL+"/quick")
				request.Header.Set("X-User", strings.Repeat(fmt.Sprint(i*j%7, "\xff"), 1+i*j%3*3000))
				leaves := (i+j)%2 == 0
				if leaves {
					time.AfterFunc(time.Duration((i*7+j*13)%40)*time.Millisecond, leave)
				}
				response, err := n.Client.Transport.RoundTrip(request)
				switch {
				case err == nil:
					if s := response.StatusCode; s != http.StatusOK && s != http.StatusTooManyRequests {
						t.Errorf("got the status %d", s)
					}
					_ = response.Body.Close()
				case !leaves:
					t.Error(err)
				}
				leave()
			}
		})
	}
	group.Wait()
	if _, most := upstream.Running(); most > 2 {
		t.Errorf("%d ran at once", most)
	}
	for _, n := range nodes {
		n.CheckMetric(t, "held_requests", 0)
		n.CheckMetric(t, `running{policy="places"}`, 0)
		n.WaitForRefund(t, "places", "same", 2)
	}
	awaitGoroutines(t, nodes[0], goroutines+6)
}
