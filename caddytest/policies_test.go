package caddytest

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// onBothStores runs a test in process and on Redis, with the global option for each.
func onBothStores(t *testing.T, test func(t *testing.T, option, source string)) {
	t.Helper()
	t.Run("in process", func(t *testing.T) { test(t, "", "memory") })
	t.Run("on Redis", func(t *testing.T) {
		test(t, "redis_ratelimit {\nredis redis://"+redistest.Start(t).Addr+"\n}", "redis")
	})
}

func TestMatch_requests(t *testing.T) {
	n := start(t, config("", `@api path /api/*
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
	}`+showDecision))
	for range 3 {
		if a := n.get(t, "/elsewhere"); a.status != http.StatusOK || hasQuota(a) {
			t.Errorf("got %v; want it to meet no policy", a)
		}
		if a := n.get(t, "/form"); a.status != http.StatusOK || hasQuota(a) {
			t.Errorf("got %v; want a GET to meet no policy", a)
		}
	}
	checkAdmitted(t, n.get(t, "/api/x"), "memory")
	checkRefusal(t, n.get(t, "/api/y"), http.StatusTooManyRequests)
	checkAdmitted(t, n.send(t, http.MethodPost, n.URL+"/form", ""), "memory")
	checkRefusal(t, n.send(t, http.MethodPost, n.URL+"/form", ""), http.StatusTooManyRequests)
}

func TestExempt_clients(t *testing.T) {
	n := start(t, config("servers {\ntrusted_proxies static 127.0.0.1/32\n}", `redis_ratelimit same 1 24h {
		exempt 192.0.2.7 2001:db8::/32
	}`+showDecision))
	for _, exempt := range []string{"192.0.2.7", "2001:db8::5", "::ffff:192.0.2.7"} {
		for range 3 {
			if a := n.get(t, "/", "X-Forwarded-For: "+exempt); a.status != http.StatusOK || a.body != "exempt " || hasQuota(a) {
				t.Errorf("%s: got %v; want it exempt", exempt, a)
			}
		}
	}
	checkAdmitted(t, n.get(t, "/", "X-Forwarded-For: 192.0.2.8"), "memory")
	checkRefusal(t, n.get(t, "/", "X-Forwarded-For: 192.0.2.8"), http.StatusTooManyRequests)
}

func TestDryRun_counts(t *testing.T) {
	onBothStores(t, func(t *testing.T, option, source string) {
		n := start(t, config(option, `redis_ratelimit {
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
			a := n.get(t, "/")
			if a.status != http.StatusOK || a.body != "allowed "+source+" "+want {
				t.Errorf("request %d: got %v; want it allowed, dry run %q", i, a, want)
			}
			checkQuota(t, a, 5, int64(4-i))
		}
		n.get(t, "/all")
		if a := n.get(t, "/all"); a.status != http.StatusTooManyRequests || !strings.Contains(a.body, "pretend") {
			t.Errorf("got %v; want the real policy to deny", a)
		}
		n.checkMetric(t, `decisions_total{decision="dry_run_allowed",policy="pretend",source="`+source+`"}`, 2)
		if n.metric(t, `decisions_total{decision="denied",policy="pretend",source="`+source+`"}`) != 0 {
			t.Error("a dry run counts as a denial")
		}
	})
}

// TestMaxDelay_pacing sends a crowd at once, to two nodes on Redis.
func TestMaxDelay_pacing(t *testing.T) {
	onBothStores(t, func(t *testing.T, option, _ string) {
		const interval, crowd, fit = 100 * time.Millisecond, 10, 6
		text := config(option, `redis_ratelimit same 10 1s {
			algorithm leaky_bucket
			max_delay 500ms
		}`+showDecision)
		nodes := []*node{start(t, text)}
		if option != "" {
			nodes = append(nodes, start(t, text))
		}
		var mu sync.Mutex
		var left []time.Time
		denied := 0
		var group sync.WaitGroup
		for i := range crowd {
			group.Go(func() {
				a, err := nodes[i%len(nodes)].try(http.MethodGet, nodes[i%len(nodes)].URL, "")
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err != nil:
					t.Error(err)
				case a.status == http.StatusOK:
					left = append(left, time.Now())
				default:
					denied++
				}
			})
		}
		group.Wait()
		if len(left) != fit || denied != crowd-fit {
			t.Fatalf("%d requests left and %d were denied, want %d and %d", len(left), denied, fit, crowd-fit)
		}
		slices.SortFunc(left, time.Time.Compare)
		for i := range left[1:] {
			if gap := left[i+1].Sub(left[i]); gap < interval/2 || gap > interval+slack {
				t.Errorf("the %d. request left %v after the one before, want about %v", i+2, gap, interval)
			}
		}
		nodes[0].checkMetric(t, "held_requests", 0)
	})
}

func TestLogKeys(t *testing.T) {
	for option, want := range map[string]bool{"": false, "log_keys": true} {
		n := start(t, config("", fmt.Sprintf("redis_ratelimit {query.k} 1 24h {\n%s\n}\nrespond ok", option)))
		n.get(t, "/?k=a-client")
		n.get(t, "/?k=a-client")
		redistest.WaitFor(t, "the denial is logged", func() error {
			lines := n.log.lines(func(l logLine) bool { return l.Message == "request denied" })
			if len(lines) == 0 {
				return fmt.Errorf("the log is %s", n.log)
			}
			if got := strings.Contains(lines[0].text, `"key":"a-client"`); got != want {
				t.Errorf("with %q: %s", option, lines[0].text)
			}
			return nil
		})
	}
}

// TestWeight_sum has two blocks of one policy. The weight of one is set by the client.
func TestWeight_sum(t *testing.T) {
	onBothStores(t, func(t *testing.T, option, source string) {
		n := start(t, config(option, `redis_ratelimit {
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
		}`+showDecision))
		for _, weight := range []string{"9223372036854775807", "9223372036854775806", "9223372036854775808", "5"} {
			a := n.get(t, "/", "X-Batch-Size: "+weight)
			if weight == "9223372036854775808" { // beyond int64, so that the fallback is used
				checkAdmitted(t, a, source)
				checkQuota(t, a, 5, 3)
			} else if a.status != http.StatusTooManyRequests || a.header.Get("Retry-After") != "" {
				t.Errorf("weight %s: got %v; want it denied for good", weight, a)
			}
		}
		checkQuota(t, n.get(t, "/"), 5, 1)
	})
}
