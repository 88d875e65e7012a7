package requests

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

func TestDryRun_counts(t *testing.T) {
	caddytest.OnBothStores(t, func(t *testing.T, option, source string) {
		n := caddytest.Start(t, caddytest.Config(option, `redis_ratelimit {
			policy pretend { key same; limit 2; window 24h; dry_run }
			policy real { key same; limit 5; window 24h }
		}
		redis_ratelimit /all all 1 24h { name all; dry_run }
		respond "{http.redis_ratelimit.decision} {http.redis_ratelimit.source} {http.redis_ratelimit.dry_run}"
		handle_errors { respond "{http.redis_ratelimit.decision} {http.redis_ratelimit.dry_run}" }`))
		for i, want := range []string{"", "", "pretend", "pretend"} {
			caddytest.CheckQuota(t, n.Get(t, "/").Want(t, http.StatusOK, "allowed "+source+" "+want), 5, int64(4-i))
		}
		n.Get(t, "/all")
		n.Get(t, "/all").Want(t, http.StatusTooManyRequests, "*pretend*") // the real policy denies
		n.CheckMetric(t, `decisions_total{decision="dry_run_allowed",policy="pretend",source="`+source+`"}`, 2)
		n.CheckMetric(t, `decisions_total{decision="denied",policy="pretend",source="`+source+`"}`, 0)
	})
}

// TestMaxDelay_pacing sends crowds at once, to two nodes on Redis. Where the machine stalls more requests of a crowd fit,
// but none leaves early.
func TestMaxDelay_pacing(t *testing.T) {
	caddytest.OnBothStores(t, func(t *testing.T, option, _ string) {
		const interval, size, fit, crowds = 100 * time.Millisecond, 10, 6, 20
		text := caddytest.Config(option, `redis_ratelimit {query.k} 10 1s { algorithm leaky_bucket; max_delay 500ms }`+caddytest.ShowDecision)
		nodes := []*caddytest.Node{caddytest.Start(t, text)}
		if option != "" {
			nodes = append(nodes, caddytest.Start(t, text))
		}
		for crowd := range crowds {
			left := paced(t, nodes, size, fmt.Sprint("/?k=", crowd))
			for i, after := range left {
				soonest := time.Duration(i) * interval
				assert.ErrorIf(t, after < soonest, "request %d left after %v, want %v or more", i+1, after, soonest)
			}
			assert.FatalIf(t, len(left) < fit, "%d requests left, want %d", len(left), fit)
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

// ladderSite has one decision by four prefixes of an address, each with its own quota.
const ladderSite = `redis_ratelimit {
		policy address { limit 2; window 24h; ipv4_prefix 32; ipv6_prefix 128 }
		policy network { limit 3; window 24h; ipv6_prefix 64 }
		policy provider { limit 4; window 24h; ipv4_prefix 16 }
		policy system { key {header.X-As}; match not vars {header.X-As} 0; limit 5; window 24h; on_empty_key skip }
		ipv4_prefix 24
		ipv6_prefix 48
		usage /usage
	}
	respond "{http.redis_ratelimit.decision} {http.redis_ratelimit.policy}"
	handle_errors { respond "{http.redis_ratelimit.decision} {http.redis_ratelimit.policy}" }`

// TestLadder_prefixes climbs from an address to its provider. No denial takes a unit of any step.
func TestLadder_prefixes(t *testing.T) {
	caddytest.OnBothStores(t, func(t *testing.T, option, _ string) {
		n := caddytest.Start(t, caddytest.Config(option+"\nservers {\ntrusted_proxies static 127.0.0.0/8\n}", ladderSite))
		for form, address := range map[string]func(network, host int) string{
			"IPv4":              func(network, host int) string { return fmt.Sprintf("10.1.%d.%d", network, host) },
			"IPv4 in IPv6 form": func(network, host int) string { return fmt.Sprintf("::ffff:10.2.%d.%d", network, host) },
			"IPv6":              func(network, host int) string { return fmt.Sprintf("2001:db8:1:%d::%d", network, host) },
		} {
			t.Run(form, func(t *testing.T) { climb(t, n, address) })
		}
		for i := range 6 {
			a := n.Get(t, "/", fmt.Sprintf("X-Forwarded-For: 10.%d.1.1", 100+i), "X-As: 64500")
			assert.ErrorIf(t, i < 5 && a.Status != http.StatusOK || i == 5 && a.Body != "denied system", "request %d of the system: got %v; want 5 to pass", i, a)
		}
	})
}

func climb(t *testing.T, n *caddytest.Node, address func(network, host int) string) {
	for _, test := range []struct {
		network, host int
		want          string
	}{
		{1, 1, "allowed address"}, {1, 1, "allowed address"}, {1, 1, "denied address"}, {1, 1, "denied address"},
		{1, 2, "allowed network"}, {1, 2, "denied network"}, {1, 3, "denied network"},
		{2, 1, "allowed provider"}, {2, 2, "denied provider"}, {3, 1, "denied provider"},
	} {
		n.Get(t, "/", "X-Forwarded-For: "+address(test.network, test.host), "X-As: 0").Want(t, 0, test.want) // 0 is not known
	}
	for host, want := range map[string][]int64{
		address(1, 1): {0, 0, 0}, address(1, 2): {1, 0, 0}, address(1, 3): {2, 0, 0}, address(2, 1): {1, 2, 0},
	} {
		assert.Equal(t, remainders(usageOf(t, n.Get(t, "/usage", "X-Forwarded-For: "+host))), want, "what remains of %s", host)
	}
}

// remainders lists what remains of each quota.
func remainders(quotas []usageQuota) (left []int64) {
	for _, q := range quotas {
		left = append(left, q.Remaining)
	}
	return left
}

// TestLadder_emptyKeys has policies in one decision that each do something else about an empty key.
func TestLadder_emptyKeys(t *testing.T) {
	policy := func(name, mode string) string {
		return "policy " + name + " {\nkey {header.X-" + name + "}\nlimit 2\nwindow 24h\n" + mode + "\n}\n"
	}
	caddytest.OnEachStore(t, "redis_ratelimit {\n"+policy("Stand", "ipv4_prefix 8\non_empty_key client_ip")+policy("Skip", "")+
		policy("Must", "on_empty_key reject")+"on_empty_key skip\nusage /usage\n}"+caddytest.ShowDecision, func(t *testing.T, n *caddytest.Node, _ string) {
		for _, test := range []struct {
			headers   string
			status    int
			explained string
		}{
			{"X-Must: a", 200, "allowed skipped allowed"},
			{"X-Must: b,X-Stand: b", 200, "allowed skipped allowed"},
			{"X-Must: c,X-Stand: 127.0.0.0/8", 200, "allowed skipped allowed"},
			{"X-Must: d,X-Skip: d", 200, "allowed allowed allowed"},
			{"X-Must: e,X-Skip: d", 429, "denied allowed allowed"}, // the third of 127.0.0.0/8
			{"X-Must: f,X-Stand: f,X-Skip: d", 200, "allowed allowed allowed"},
			{"X-Must: g,X-Stand: g,X-Skip: d", 429, "allowed denied allowed"},
			{"X-Stand: h,X-Skip: h", 400, "skipped skipped rejected"},
			{"X-Stand: h,X-Skip: h,X-Must: h,X-Must: i", 400, "skipped skipped rejected"},
			{"X-Stand: h,X-Skip: h,X-Skip: i,X-Must: h", 400, "skipped rejected skipped"},
		} {
			headers, lists := strings.Split(test.headers, ","), map[string][]string{}
			for _, line := range headers {
				name, value, _ := strings.Cut(line, ": ")
				lists[name] = append(lists[name], value)
			}
			given := assert.NoError(json.Marshal(lists))(t)
			var explained []string
			for _, p := range n.Explain(t, "/", string(given)).Policies {
				explained = append(explained, p.Decision)
			}
			assert.Equal(t, strings.Join(explained, " "), test.explained, "the explanation of %s", test.headers)
			n.Get(t, "/", headers...).Want(t, test.status, caddytest.Any)
		}
		n.Get(t, "/usage", "X-Skip: d").Want(t, http.StatusBadRequest, caddytest.Any) // no quotas without the key that must be
		assert.Equal(t, remainders(usageOf(t, n.Get(t, "/usage", "X-Must: a"))), []int64{0, 1}, "what remains of address and key")
	})
}
