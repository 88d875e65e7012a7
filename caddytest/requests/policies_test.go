package requests

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

func TestMatch_requests(t *testing.T) {
	t.Parallel()
	n := caddytest.Start(t, caddytest.Config("", `@api path /api/*
	redis_ratelimit {
		policy named {
			key same
			limit 1
			window 24h
			match @api
		}
		policy block {
			key same
			limit 1
			window 24h
			match {
				path /form
				method POST
			}
		}
	}`+caddytest.ShowDecision))
	for range 3 {
		if a := n.Get(t, "/elsewhere"); a.Status != http.StatusOK || caddytest.HasQuota(a) {
			t.Errorf("got %v; want it to meet no policy", a)
		}
		if a := n.Get(t, "/form"); a.Status != http.StatusOK || caddytest.HasQuota(a) {
			t.Errorf("got %v; want a GET to meet no policy", a)
		}
	}
	caddytest.CheckAdmitted(t, n.Get(t, "/api/x"), "memory")
	caddytest.CheckRefusal(t, n.Get(t, "/api/y"), http.StatusTooManyRequests)
	caddytest.CheckAdmitted(t, n.Send(t, http.MethodPost, n.URL+"/form", ""), "memory")
	caddytest.CheckRefusal(t, n.Send(t, http.MethodPost, n.URL+"/form", ""), http.StatusTooManyRequests)
}

func TestExempt_clients(t *testing.T) {
	t.Parallel()
	n := caddytest.Start(t, caddytest.Config("servers {\ntrusted_proxies static 127.0.0.1/32\n}", `redis_ratelimit same 1 24h {
		exempt 192.0.2.7 2001:db8::/32
	}`+caddytest.ShowDecision))
	for _, exempt := range []string{"192.0.2.7", "2001:db8::5", "::ffff:192.0.2.7"} {
		for range 3 {
			if a := n.Get(t, "/", "X-Forwarded-For: "+exempt); a.Status != http.StatusOK || a.Body != "exempt " || caddytest.HasQuota(a) {
				t.Errorf("%s: got %v; want it exempt", exempt, a)
			}
		}
	}
	caddytest.CheckAdmitted(t, n.Get(t, "/", "X-Forwarded-For: 192.0.2.8"), "memory")
	caddytest.CheckRefusal(t, n.Get(t, "/", "X-Forwarded-For: 192.0.2.8"), http.StatusTooManyRequests)
}

func TestDryRun_counts(t *testing.T) {
	t.Parallel()
	caddytest.OnBothStores(t, func(t *testing.T, option, source string) {
		n := caddytest.Start(t, caddytest.Config(option, `redis_ratelimit {
			policy pretend {
				key same
				limit 2
				window 24h
				dry_run
			}
			policy real {
				key same
				limit 5
				window 24h
			}
		}
		redis_ratelimit /all all 1 24h {
			name all
			dry_run
		}
		respond "{http.redis_ratelimit.decision} {http.redis_ratelimit.source} {http.redis_ratelimit.dry_run}"
		handle_errors {
			respond "{http.redis_ratelimit.decision} {http.redis_ratelimit.dry_run}"
		}`))
		for i, want := range []string{"", "", "pretend", "pretend"} {
			a := n.Get(t, "/")
			if a.Status != http.StatusOK || a.Body != "allowed "+source+" "+want {
				t.Errorf("request %d: got %v; want it allowed, dry run %q", i, a, want)
			}
			caddytest.CheckQuota(t, a, 5, int64(4-i))
		}
		n.Get(t, "/all")
		if a := n.Get(t, "/all"); a.Status != http.StatusTooManyRequests || !strings.Contains(a.Body, "pretend") {
			t.Errorf("got %v; want the real policy to deny", a)
		}
		n.CheckMetric(t, `decisions_total{decision="dry_run_allowed",policy="pretend",source="`+source+`"}`, 2)
		if n.Metric(t, `decisions_total{decision="denied",policy="pretend",source="`+source+`"}`) != 0 {
			t.Error("a dry run counts as a denial")
		}
	})
}

// TestMaxDelay_pacing sends crowds at once, to two nodes on Redis. Where the machine stalls more requests of a crowd fit,
// but none leaves early.
func TestMaxDelay_pacing(t *testing.T) {
	t.Parallel()
	caddytest.OnBothStores(t, func(t *testing.T, option, _ string) {
		const interval, size, fit, crowds = 100 * time.Millisecond, 10, 6, 20
		text := caddytest.Config(option, `redis_ratelimit {query.k} 10 1s {
			algorithm leaky_bucket
			max_delay 500ms
		}`+caddytest.ShowDecision)
		nodes := []*caddytest.Node{caddytest.Start(t, text)}
		if option != "" {
			nodes = append(nodes, caddytest.Start(t, text))
		}
		for crowd := range crowds {
			left := paced(t, nodes, size, fmt.Sprint("/?k=", crowd))
			for i, after := range left {
				if soonest := time.Duration(i) * interval; after < soonest {
					t.Errorf("request %d left after %v, want %v or more", i+1, after, soonest)
				}
			}
			if len(left) < fit {
				t.Fatalf("%d requests left, want %d", len(left), fit)
			}
			if len(left) == fit {
				nodes[0].CheckMetric(t, "held_requests", 0)
				return
			}
		}
		t.Errorf("more than %d requests left of each of %d crowds", fit, crowds)
	})
}

// paced sends requests at once, in turn to each node, and returns after which times those that pass have
// left. The others must be denied.
func paced(t *testing.T, nodes []*caddytest.Node, size int, path string) []time.Duration {
	t.Helper()
	var mu sync.Mutex
	var left []time.Duration
	var group sync.WaitGroup
	begin := time.Now()
	for i := range size {
		group.Go(func() {
			n := nodes[i%len(nodes)]
			a, err := n.Try(http.MethodGet, n.URL+path, "")
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				t.Error(err)
			case a.Status == http.StatusOK:
				left = append(left, time.Since(begin))
			case a.Status != http.StatusTooManyRequests:
				t.Errorf("got %v", a)
			}
		})
	}
	group.Wait()
	slices.Sort(left)
	return left
}

func TestLogKeys(t *testing.T) {
	t.Parallel()
	for option, want := range map[string]bool{"": false, "log_keys": true} {
		n := caddytest.Start(t, caddytest.Config("", fmt.Sprintf("redis_ratelimit {query.k} 1 24h {\n%s\n}\nrespond ok", option)))
		n.Get(t, "/?k=a-client")
		n.Get(t, "/?k=a-client")
		redistest.WaitFor(t, "the denial is logged", func() error {
			lines := n.Log.Lines(func(l caddytest.LogLine) bool { return l.Message == "request denied" })
			if len(lines) == 0 {
				return fmt.Errorf("the log is %s", n.Log)
			}
			if got := strings.Contains(lines[0].Text, `"key":"a-client"`); got != want {
				t.Errorf("with %q: %s", option, lines[0].Text)
			}
			return nil
		})
	}
}

// TestWeight_sum has two blocks of one policy. The weight of one is set by the client.
func TestWeight_sum(t *testing.T) {
	t.Parallel()
	caddytest.OnBothStores(t, func(t *testing.T, option, source string) {
		n := caddytest.Start(t, caddytest.Config(option, `redis_ratelimit {
			policy stat {
				key same
				limit 5
				window 24h
			}
			policy stat {
				key same
				limit 5
				window 24h
				weight {header.X-Batch-Size} 1
			}
		}`+caddytest.ShowDecision))
		for _, weight := range []string{"9223372036854775807", "9223372036854775806", "9223372036854775808", "5"} {
			a := n.Get(t, "/", "X-Batch-Size: "+weight)
			if weight == "9223372036854775808" { // beyond int64, so that the fallback is used
				caddytest.CheckAdmitted(t, a, source)
				caddytest.CheckQuota(t, a, 5, 3)
			} else if a.Status != http.StatusTooManyRequests || a.Header.Get("Retry-After") != "" {
				t.Errorf("weight %s: got %v; want it denied for good", weight, a)
			}
		}
		caddytest.CheckQuota(t, n.Get(t, "/"), 5, 1)
	})
}
