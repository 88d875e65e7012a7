// Package reliability tests outages, reloads, lost replies, and limits that several nodes share.
package reliability

import (
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// outages are the failures of Redis, with their ends.
var outages = []struct {
	name     string
	fail     func(t testing.TB, s *redistest.Server)
	comeBack func(t testing.TB, s *redistest.Server)
}{
	{"paused", func(t testing.TB, s *redistest.Server) { s.Pause(t) }, func(t testing.TB, s *redistest.Server) { s.Resume(t) }},
	{"killed", func(_ testing.TB, s *redistest.Server) { s.Kill() }, func(t testing.TB, s *redistest.Server) { s.Run(t) }},
}

// outageLength is long enough for two probes, each of which waits half a second for a paused Redis.
const outageLength = 3300 * time.Millisecond

func TestOutage_failModes(t *testing.T) {
	t.Parallel()
	checks := map[string]func(testing.TB, caddytest.Response){
		"local": func(t testing.TB, a caddytest.Response) {
			switch a.Body {
			case "allowed redis", "allowed fallback":
				assert.ErrorIf(t, a.Status != http.StatusOK || a.Header.Get("X-Ratelimit-Limit") != "1000000", "got %v; want a decision by the same policy", a)
			default:
				t.Errorf("got %v", a)
			}
		},
		"open": func(t testing.TB, a caddytest.Response) {
			if a.Status == http.StatusOK && a.Body == "allowed redis" {
				return // it was decided before the breaker opened
			}
			assert.ErrorIf(t, a.Status != http.StatusOK || a.Body != "failed_open redis" || caddytest.HasQuota(a) || a.Header.Get("Retry-After") != "", "got %v; want it let through, without X-RateLimit headers", a)
		},
		"closed": func(t testing.TB, a caddytest.Response) {
			if a.Status == http.StatusOK && a.Body == "allowed redis" {
				return // it was decided before the breaker opened
			}
			caddytest.CheckRefusal(t, a, http.StatusServiceUnavailable)
			assert.ErrorIf(t, a.Body != "failed_closed redis" || caddytest.HasQuota(a), "got %v; want failed_closed without X-RateLimit headers", a)
		},
	}
	for mode, check := range checks {
		for _, outage := range outages {
			t.Run(mode+" while "+outage.name, func(t *testing.T) {
				t.Parallel()
				assert.Retry(t, "one outage is logged", func() (again bool, seen any) { // a busy machine has more, of half a second
					server := redistest.Start(t)
					n := caddytest.Start(t, caddytest.Quietly(caddytest.Config(caddytest.RedisAt(server.Addr, "timeout 500ms\nfail_mode "+mode),
						"redis_ratelimit {query.k} 1000000 24h"+caddytest.ShowDecision)))
					caddytest.WaitForRedis(t, n, "/?k=before")
					outage.fail(t, server)
					requestsDuring(t, n, outageLength, check)
					outage.comeBack(t, server)
					caddytest.WaitForRedis(t, n, "/?k=after")
					if len(n.Log.Outages()) == 1 {
						caddytest.CheckOutageLog(t, n)
						return false, nil
					}
					return true, n.Log.Lines(caddytest.Ours)
				})
			})
		}
	}
}

// requestsDuring has 8 clients send one request after the other for that long, and checks the answers.
func requestsDuring(t *testing.T, n *caddytest.Node, length time.Duration, check func(testing.TB, caddytest.Response)) {
	t.Helper()
	var group sync.WaitGroup
	end := time.Now().Add(length)
	for i := range 8 {
		group.Go(func() {
			pace := time.NewTicker(20 * time.Millisecond)
			defer pace.Stop()
			for ; time.Now().Before(end) && !t.Failed(); <-pace.C {
				a, err := n.Try(http.MethodGet, n.URL+fmt.Sprint("/?k=", i), "")
				if err != nil {
					t.Error(err)
				} else {
					check(t, a)
				}
			}
		})
	}
	group.Wait()
}

// TestOutage_oneTimeoutPerRequest has a request pass three handlers and a dry run. Redis goes on as soon as the first
// of them has waited: none of the others waits for it.
func TestOutage_oneTimeoutPerRequest(t *testing.T) {
	const limit, pretended = "redis_ratelimit same 1000000 24h\n", "redis_ratelimit same 1000000 24h {\ndry_run\n}\n"
	n, server := caddytest.OnRedis(t, "timeout 1s", "route {\n"+limit+limit+pretended+limit+"}"+caddytest.ShowDecision)
	caddytest.WaitForRedis(t, n, "/")
	const byNode = `decisions_total{decision="allowed",policy="default",source="fallback"}`
	before := n.Metric(t, byNode) // of a busy machine, whose Redis has answered too late
	server.Pause(t)
	answers := make(chan caddytest.Response)
	go func() {
		a, err := n.Try(http.MethodGet, n.URL+"/", "")
		if err != nil {
			t.Error(err)
		}
		answers <- a
	}()
	assert.Retry(t, "the first handler has waited", func() (bool, any) { return n.Metric(t, byNode) == before, "no decision" })
	server.Resume(t)
	(<-answers).Want(t, http.StatusOK, "allowed fallback")
	n.CheckMetric(t, byNode, before+3)
}

// nowhere are global options of Redis servers that are down: nothing listens, or nothing replies.
func nowhere(t *testing.T) map[string]string {
	t.Helper()
	paused := redistest.Start(t)
	paused.Pause(t)
	refusing := redistest.FreeAddr(t)
	return map[string]string{
		"refusing": caddytest.RedisAt(refusing, ""),
		"hanging":  caddytest.RedisAt(paused.Addr, ""),
		"cluster":  "redis_ratelimit {\nredis {\nmode cluster\naddress " + refusing + " " + paused.Addr + "\n}\n}",
		"sentinel": "redis_ratelimit {\nredis {\nmode sentinel\nmaster m\naddress " + refusing + " " + paused.Addr + "\n}\n}",
		"socket":   "redis_ratelimit {\nredis unix:///nowhere.sock\n}",
	}
}

func TestRedisDown_commands(t *testing.T) {
	t.Parallel()
	const site = "redis_ratelimit same 2 24h" + caddytest.ShowDecision
	for name, global := range nowhere(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := caddytest.WriteCaddyfile(t, caddytest.Config(global, site))
			for _, verb := range []string{"adapt", "validate"} {
				ports := caddytest.Run{Env: []string{"PORT=1", "ADMIN=127.0.0.1:1"}}
				ports.Caddy(t, verb, "--config", path, "--adapter", "caddyfile").Want(t, 0)
			}
			n := caddytest.Start(t, caddytest.Config(global, site))
			n.Get(t, "/").Want(t, http.StatusOK, "allowed fallback")
			n.Reload(t, caddytest.Config(global, site+"\nheader X-Round 2"))
			n.Get(t, "/").Want(t, http.StatusOK, "allowed fallback")
			caddytest.CheckRefusal(t, n.Get(t, "/").Want(t, 0, caddytest.Any, "X-Round: 2"), http.StatusTooManyRequests)
		})
	}
}

// TestRedisDown_startsLater starts Caddy before Redis.
func TestRedisDown_startsLater(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.Kill()
	n := caddytest.Start(t, caddytest.Config(caddytest.PatientRedis(server), "redis_ratelimit {query.k} 1000000 24h"+caddytest.ShowDecision))
	n.Get(t, "/?k=before").Want(t, http.StatusOK, "allowed fallback")
	server.Run(t)
	caddytest.WaitForRedis(t, n, "/?k=after")
	caddytest.CheckOutageLog(t, n)
}

// TestNetwork_distantRedis has a round trip of two fifths of the timeout, as 40ms are of the default, with TLS and a
// password. Connecting takes several round trips, so that the first requests of a crowd may be decided
// elsewhere, and some whenever a busy machine loses 600ms.
func TestNetwork_distantRedis(t *testing.T) {
	authority := redistest.NewAuthority(t)
	address, args := authority.ServeTLS(t)
	redistest.Start(t, append(args, "--requirepass", "secret")...)
	proxy := redistest.NewProxy(t, address)
	proxy.Delay(400 * time.Millisecond)
	n := caddytest.Start(t, caddytest.Config("redis_ratelimit {\ntimeout 1s\nredis {\naddress "+proxy.Addr+"\npassword {env.REDIS_PASSWORD}\ntls {\nca "+authority.CA+"\n}\n}\n}",
		"redis_ratelimit same 1000000 24h"+caddytest.ShowDecision), "REDIS_PASSWORD=secret")
	assert.Retry(t, "Redis decides all of 96 requests in a row", func() (again bool, seen any) {
		elsewhere := caddytest.DecidedElsewhere(t, n, 16, 6)
		return elsewhere > 0, fmt.Sprintf("%d were decided elsewhere\n%v", elsewhere, n.Log.Lines(caddytest.Ours))
	})
}

// TestNetwork_lostReply cuts the connection between a decision of Redis and its reply. The request counts at most once.
func TestNetwork_lostReply(t *testing.T) {
	t.Parallel()
	const limit, cuts = 1000, 5
	proxy := redistest.NewProxy(t, redistest.Start(t).Addr)
	n := caddytest.Start(t, caddytest.Config(caddytest.RedisAt(proxy.Addr, "timeout 10s\nfail_mode closed"), "redis_ratelimit same 1000 24h"+caddytest.ShowDecision))
	admitted, lost := 0, 0
	for i := range 10 * cuts {
		if i%10 == 5 {
			proxy.CutNextReply()
		}
		switch a := n.Get(t, "/"); a.Status {
		case http.StatusOK:
			admitted++
		case http.StatusServiceUnavailable:
			lost++
		default:
			t.Fatalf("got %v", a)
		}
	}
	last := n.Get(t, "/")
	remaining, err := strconv.Atoi(last.Header.Get("X-Ratelimit-Remaining"))
	assert.FatalIf(t, err != nil, "got %v", last)
	counted := limit - remaining - 1
	assert.ErrorIf(t, lost != cuts || counted < admitted || counted > admitted+cuts, "%d were admitted, %d lost and %d counted; want %d lost, and each counted at most once", admitted, lost, counted, cuts)
}

// TestOutage_localState uses a part of a quota on Redis, then the rest in the node during the outage, and
// then finds the state of Redis unchanged.
func TestOutage_localState(t *testing.T) {
	t.Parallel()
	proxy := redistest.NewProxy(t, redistest.Start(t).Addr)
	option := caddytest.RedisAt(proxy.Addr, "timeout 10s")
	n := caddytest.Start(t, caddytest.Config(option, "redis_ratelimit same 3 24h"+caddytest.ShowDecision))
	n.Get(t, "/").Want(t, http.StatusOK, "allowed redis")
	proxy.Part()
	for i := range int64(2) {
		caddytest.CheckQuota(t, n.Get(t, "/").Want(t, http.StatusOK, "allowed fallback"), 3, 1-i)
	}
	caddytest.CheckRefusal(t, n.Get(t, "/").Want(t, 0, "denied fallback"), http.StatusTooManyRequests)
	n.AwaitBreaker(t, "/")
	proxy.Join()
	n.Await(t, "/", 0, "* redis")
	caddytest.CheckOutageLog(t, n)
}

// TestOutage_failoverByAddress promotes a replica whose master lives on as its replica, behind an address that leads to
// the new master from then on, as behind a TCP proxy or a Kubernetes Service.
func TestOutage_failoverByAddress(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"local", "closed"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			old := redistest.Start(t)
			host, port, err := net.SplitHostPort(old.Addr)
			assert.Must(t, err)
			promoted := redistest.Start(t, "--replicaof", host, port)
			redistest.AwaitReplica(t, promoted, old)
			proxy := redistest.NewProxy(t, old.Addr)
			nodes, option := []*caddytest.Node{}, caddytest.RedisAt(proxy.Addr, "timeout 10s\nfail_mode "+mode)
			for range 2 {
				text := caddytest.Config(option, "redis_ratelimit {query.k} 1000000 24h"+caddytest.ShowDecision)
				nodes = append(nodes, caddytest.Start(t, caddytest.Quietly(text)))
			}
			for _, n := range nodes {
				caddytest.WaitForRedis(t, n, "/?k=before")
			}
			redistest.AwaitReplica(t, promoted, old)
			remaining := nodes[0].Get(t, "/?k=before").Header.Get("X-Ratelimit-Remaining")
			redistest.AwaitReplica(t, promoted, old)
			assert.Must(t, promoted.Client(t).ReplicaOf(t.Context(), "no", "one").Err())
			host, port, err = net.SplitHostPort(promoted.Addr)
			assert.Must(t, err)
			assert.Must(t, old.Client(t).ReplicaOf(t.Context(), host, port).Err())
			proxy.Lead(promoted.Addr)
			for _, n := range nodes {
				caddytest.WaitForRedis(t, n, "/?k=after")
			}
			left := nodes[1].Get(t, "/?k=before").Header.Get("X-Ratelimit-Remaining")
			before, after := assert.NoError(strconv.Atoi(remaining))(t), assert.NoError(strconv.Atoi(left))(t)
			assert.ErrorIf(t, after != before-1, "%d remain of a quota of which %d remained before the failover and one request", after, before)
			for _, n := range nodes {
				assert.ErrorIf(t, strings.Count(n.Log.String(), "redis decides again") > 1, "more than one recovery:\n%s", n.Log)
			}
		})
	}
}
