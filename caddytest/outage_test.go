package caddytest

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

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

const (
	// timeout is the default of the option.
	timeout = 100 * time.Millisecond

	// slack bounds the delay of a busy machine of two cores, besides its stalls. On an idle one the
	// delay is below 20ms.
	slack = 150 * time.Millisecond

	// stormPace is the least time from one request of a client to its next under load. Without it the
	// load would use all of a small machine, and responses would be slow without a fault of Redis.
	stormPace = 2 * time.Millisecond
)

// outageLength is long enough for two probes.
const outageLength = 2300 * time.Millisecond

func TestOutage_failModes(t *testing.T) {
	checks := map[string]func(testing.TB, answer){
		"local": func(t testing.TB, a answer) {
			switch a.body {
			case "allowed redis", "allowed fallback":
				if a.status != http.StatusOK || a.header.Get("X-Ratelimit-Limit") != "1000000" {
					t.Errorf("got %v; want a decision by the same policy", a)
				}
			default:
				t.Errorf("got %v", a)
			}
		},
		"open": func(t testing.TB, a answer) {
			if a.status == http.StatusOK && a.body == "allowed redis" {
				return // it was decided before the breaker opened
			}
			if a.status != http.StatusOK || a.body != "failed_open redis" || hasQuota(a) || a.header.Get("Retry-After") != "" {
				t.Errorf("got %v; want it let through, without X-RateLimit headers", a)
			}
		},
		"closed": func(t testing.TB, a answer) {
			if a.status == http.StatusOK && a.body == "allowed redis" {
				return // it was decided before the breaker opened
			}
			checkRefusal(t, a, http.StatusServiceUnavailable)
			if a.body != "failed_closed redis" || hasQuota(a) {
				t.Errorf("got %v; want failed_closed without X-RateLimit headers", a)
			}
		},
	}
	for mode, check := range checks {
		for _, outage := range outages {
			t.Run(mode+" while "+outage.name, func(t *testing.T) {
				server := redistest.Start(t)
				n := start(t, quietly(config("redis_ratelimit {\nredis redis://"+server.Addr+"\nfail_mode "+mode+"\n}",
					"redis_ratelimit {query.k} 1000000 24h"+showDecision)))
				waitForRedis(t, n, "/?k=before")
				stalled := redistest.WatchStalls(t)
				outage.fail(t, server)
				checkNoneWaits(t, requestsDuring(t, n, outageLength, check), stalled())
				outage.comeBack(t, server)
				waitForRedis(t, n, "/?k=after")
				checkOutageLog(t, n)
			})
		}
	}
}

// checkNoneWaits checks the slowest of many responses. Stalls of the machine are added to the bound.
func checkNoneWaits(t testing.TB, slowest, stalled time.Duration) {
	t.Helper()
	if slowest >= timeout+slack+stalled {
		t.Errorf("the slowest answer took %v; none may wait for longer than %v (the machine stalled for %v)", slowest, timeout, stalled)
	}
	t.Logf("the slowest answer took %v; the machine stalled for %v", slowest, stalled)
}

// hasQuota reports whether an answer has rate limit headers.
func hasQuota(a answer) bool {
	for name := range a.header {
		if strings.HasPrefix(name, "X-Ratelimit-") {
			return true
		}
	}
	return false
}

// waitForRedis sends requests until Redis decides.
func waitForRedis(t testing.TB, n *node, path string) {
	t.Helper()
	redistest.WaitFor(t, "Redis decides", func() error {
		if a := n.get(t, path); a.body != "allowed redis" {
			return fmt.Errorf("got %v", a)
		}
		return nil
	})
}

// requestsDuring has 8 clients send one request after the other for that long, at the pace of a storm. It
// checks the answers and returns the time of the slowest.
func requestsDuring(t *testing.T, n *node, length time.Duration, check func(testing.TB, answer)) time.Duration {
	t.Helper()
	var mu sync.Mutex
	var slowest time.Duration
	var group sync.WaitGroup
	end := time.Now().Add(length)
	for i := range 8 {
		group.Go(func() {
			pace := time.NewTicker(stormPace)
			defer pace.Stop()
			for ; time.Now().Before(end) && !t.Failed(); <-pace.C {
				a, err := n.try(http.MethodGet, n.URL+fmt.Sprint("/?k=", i), "")
				mu.Lock()
				if err != nil {
					t.Error(err)
				} else {
					check(t, a)
				}
				slowest = max(slowest, a.took)
				mu.Unlock()
			}
		})
	}
	group.Wait()
	return slowest
}

// checkOutageLog checks for one line at the beginning of the outage and one at its end.
func checkOutageLog(t testing.TB, n *node) {
	t.Helper()
	redistest.WaitFor(t, "the log has the recovery", func() error {
		if len(n.log.recoveries()) == 0 {
			return fmt.Errorf("%v", n.log.lines(ours))
		}
		return nil
	})
	if begun, ended := n.log.outages(), n.log.recoveries(); len(begun) != 1 || len(ended) != 1 ||
		!strings.HasPrefix(begun[0].Message, "redis cannot decide") {
		t.Errorf("the log has the outages %v and recoveries %v; want one each", begun, ended)
	}
}

// TestOutage_localState uses a part of a quota on Redis, then the rest in the node during the outage, and
// then finds the state of Redis unchanged.
func TestOutage_localState(t *testing.T) {
	server := redistest.Start(t)
	n := start(t, config("redis_ratelimit {\nredis redis://"+server.Addr+"\n}", "redis_ratelimit same 3 24h"+showDecision))
	waitForRedis(t, n, "/")
	server.Pause(t)
	for i := range int64(2) {
		a := n.get(t, "/")
		checkAdmitted(t, a, "fallback")
		checkQuota(t, a, 3, 1-i)
	}
	a := n.get(t, "/")
	checkRefusal(t, a, http.StatusTooManyRequests)
	if a.body != "denied fallback" {
		t.Errorf("got %v; want it denied by the fallback", a)
	}
	server.Resume(t)
	redistest.WaitFor(t, "redis decides again", func() error {
		if a = n.get(t, "/"); a.body != "denied redis" && a.body != "allowed redis" {
			return fmt.Errorf("got %v", a)
		}
		return nil
	})
	checkOutageLog(t, n)
}

// TestOutage_oneTimeoutPerRequest has a request pass three handlers and a dry run.
func TestOutage_oneTimeoutPerRequest(t *testing.T) {
	const patience = 2 * time.Second
	server := redistest.Start(t)
	site := "route {\n"
	for _, option := range []string{"", "", "dry_run", ""} {
		site += "redis_ratelimit same 1000000 24h {\n" + option + "\n}\n"
	}
	n := start(t, config("redis_ratelimit {\nredis redis://"+server.Addr+"\ntimeout 2s\n}", site+"}"+showDecision))
	waitForRedis(t, n, "/")
	stalled := redistest.WatchStalls(t)
	server.Pause(t)
	a := n.get(t, "/")
	checkAdmitted(t, a, "fallback")
	if a.took < patience || a.took > 2*patience+stalled() {
		t.Errorf("the answer took %v, want one timeout of %v", a.took, patience)
	}
}

// TestOutage_failModePerHandler has handlers that override the global option.
func TestOutage_failModePerHandler(t *testing.T) {
	server := redistest.Start(t)
	site := ""
	for _, mode := range []string{"local", "open", "closed"} {
		site += "redis_ratelimit /" + mode + " same 1000000 24h {\nfail_mode " + mode + "\n}\n"
	}
	n := start(t, config("redis_ratelimit {\nredis redis://"+server.Addr+"\nfail_mode closed\n}", site+showDecision))
	waitForRedis(t, n, "/local")
	server.Kill()
	for path, want := range map[string]string{"/local": "allowed fallback", "/open": "failed_open redis", "/closed": "failed_closed redis"} {
		if a := n.get(t, path); a.body != want {
			t.Errorf("%s: got %v, want %s", path, a, want)
		}
	}
}
