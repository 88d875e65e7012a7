// Package reliability tests outages, reloads, lost replies, and limits that several nodes share.
package reliability

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

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

// outageLength is long enough for two probes.
const outageLength = 2300 * time.Millisecond

func TestOutage_failModes(t *testing.T) {
	t.Parallel()
	checks := map[string]func(testing.TB, caddytest.Response){
		"local": func(t testing.TB, a caddytest.Response) {
			switch a.Body {
			case "allowed redis", "allowed fallback":
				if a.Status != http.StatusOK || a.Header.Get("X-Ratelimit-Limit") != "1000000" {
					t.Errorf("got %v; want a decision by the same policy", a)
				}
			default:
				t.Errorf("got %v", a)
			}
		},
		"open": func(t testing.TB, a caddytest.Response) {
			if a.Status == http.StatusOK && a.Body == "allowed redis" {
				return // it was decided before the breaker opened
			}
			if a.Status != http.StatusOK || a.Body != "failed_open redis" || caddytest.HasQuota(a) || a.Header.Get("Retry-After") != "" {
				t.Errorf("got %v; want it let through, without X-RateLimit headers", a)
			}
		},
		"closed": func(t testing.TB, a caddytest.Response) {
			if a.Status == http.StatusOK && a.Body == "allowed redis" {
				return // it was decided before the breaker opened
			}
			caddytest.CheckRefusal(t, a, http.StatusServiceUnavailable)
			if a.Body != "failed_closed redis" || caddytest.HasQuota(a) {
				t.Errorf("got %v; want failed_closed without X-RateLimit headers", a)
			}
		},
	}
	for mode, check := range checks {
		for _, outage := range outages {
			t.Run(mode+" while "+outage.name, func(t *testing.T) {
				t.Parallel()
				server := redistest.Start(t)
				n := caddytest.Start(t, caddytest.Quietly(caddytest.Config("redis_ratelimit {\nredis redis://"+server.Addr+"\nfail_mode "+mode+"\n}",
					"redis_ratelimit {query.k} 1000000 24h"+caddytest.ShowDecision)))
				caddytest.WaitForRedis(t, n, "/?k=before")
				outage.fail(t, server)
				requestsDuring(t, n, outageLength, check)
				outage.comeBack(t, server)
				caddytest.WaitForRedis(t, n, "/?k=after")
				caddytest.CheckOutageLog(t, n)
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

// TestOutage_localState uses a part of a quota on Redis, then the rest in the node during the outage, and
// then finds the state of Redis unchanged.
func TestOutage_localState(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	n := caddytest.Start(t, caddytest.Config("redis_ratelimit {\nredis redis://"+server.Addr+"\n}", "redis_ratelimit same 3 24h"+caddytest.ShowDecision))
	caddytest.WaitForRedis(t, n, "/")
	server.Pause(t)
	for i := range int64(2) {
		a := n.Get(t, "/")
		caddytest.CheckAdmitted(t, a, "fallback")
		caddytest.CheckQuota(t, a, 3, 1-i)
	}
	a := n.Get(t, "/")
	caddytest.CheckRefusal(t, a, http.StatusTooManyRequests)
	if a.Body != "denied fallback" {
		t.Errorf("got %v; want it denied by the fallback", a)
	}
	server.Resume(t)
	redistest.WaitFor(t, "redis decides again", func() error {
		if a = n.Get(t, "/"); a.Body != "denied redis" && a.Body != "allowed redis" {
			return fmt.Errorf("got %v", a)
		}
		return nil
	})
	caddytest.CheckOutageLog(t, n)
}

// TestOutage_oneTimeoutPerRequest has a request pass three handlers and a dry run. Redis goes on as soon as the first
// of them has waited: none of the others waits for it.
func TestOutage_oneTimeoutPerRequest(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	site := "route {\n"
	for _, option := range []string{"", "", "dry_run", ""} {
		site += "redis_ratelimit same 1000000 24h {\n" + option + "\n}\n"
	}
	n := caddytest.Start(t, caddytest.Config("redis_ratelimit {\nredis redis://"+server.Addr+"\ntimeout 1s\n}", site+"}"+caddytest.ShowDecision))
	caddytest.WaitForRedis(t, n, "/")
	server.Pause(t)
	answers := make(chan caddytest.Response)
	go func() {
		a, err := n.Try(http.MethodGet, n.URL+"/", "")
		if err != nil {
			t.Error(err)
		}
		answers <- a
	}()
	const byNode = `decisions_total{decision="allowed",policy="default",source="fallback"}`
	redistest.WaitFor(t, "the first handler has waited", func() error {
		if n.Metric(t, byNode) == 0 {
			return errors.New("none decides by the node")
		}
		return nil
	})
	server.Resume(t)
	caddytest.CheckAdmitted(t, <-answers, "fallback")
	n.CheckMetric(t, byNode, 3)
}

// TestOutage_failModePerHandler has handlers that override the global option.
func TestOutage_failModePerHandler(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	site := ""
	for _, mode := range []string{"local", "open", "closed"} {
		site += "redis_ratelimit /" + mode + " same 1000000 24h {\nfail_mode " + mode + "\n}\n"
	}
	n := caddytest.Start(t, caddytest.Config("redis_ratelimit {\nredis redis://"+server.Addr+"\nfail_mode closed\n}", site+caddytest.ShowDecision))
	caddytest.WaitForRedis(t, n, "/local")
	server.Kill()
	for path, want := range map[string]string{"/local": "allowed fallback", "/open": "failed_open redis", "/closed": "failed_closed redis"} {
		if a := n.Get(t, path); a.Body != want {
			t.Errorf("%s: got %v, want %s", path, a, want)
		}
	}
}
