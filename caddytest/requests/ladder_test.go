package requests

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// ladderSite has one decision by four prefixes of an address, each with its own quota.
const ladderSite = `redis_ratelimit {
		policy address {
			limit 2
			window 24h
			ipv4_prefix 32
			ipv6_prefix 128
		}
		policy network {
			limit 3
			window 24h
			ipv6_prefix 64
		}
		policy provider {
			limit 4
			window 24h
			ipv4_prefix 16
		}
		policy system {
			key {header.X-As}
			match not vars {header.X-As} 0
			limit 5
			window 24h
			on_empty_key skip
		}
		ipv4_prefix 24
		ipv6_prefix 48
		usage /usage
	}
	respond "{http.redis_ratelimit.decision} {http.redis_ratelimit.policy}"
	handle_errors {
		respond "{http.redis_ratelimit.decision} {http.redis_ratelimit.policy}"
	}`

// TestLadder_prefixes climbs from an address to its provider. No denial takes a unit of any step.
func TestLadder_prefixes(t *testing.T) {
	t.Parallel()
	for source, option := range caddytest.Stores(t) {
		t.Run(source, func(t *testing.T) {
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
				if i < 5 && a.Status != http.StatusOK || i == 5 && a.Body != "denied system" {
					t.Errorf("request %d of the system: got %v; want 5 to pass", i, a)
				}
			}
		})
	}
}

func climb(t *testing.T, n *caddytest.Node, address func(network, host int) string) {
	for i, test := range []struct {
		network, host int
		want          string
	}{
		{1, 1, "allowed address"}, {1, 1, "allowed address"}, {1, 1, "denied address"}, {1, 1, "denied address"},
		{1, 2, "allowed network"}, {1, 2, "denied network"}, {1, 3, "denied network"},
		{2, 1, "allowed provider"}, {2, 2, "denied provider"}, {3, 1, "denied provider"},
	} {
		a := n.Get(t, "/", "X-Forwarded-For: "+address(test.network, test.host), "X-As: 0") // 0 is not known
		if a.Body != test.want {
			t.Errorf("request %d: got %v; want %s", i, a, test.want)
		}
	}
	for i, want := range [][]int64{{0, 0, 0}, {1, 0, 0}, {2, 0, 0}} {
		quotas := usageOf(t, n.Get(t, "/usage", "X-Forwarded-For: "+address(1, i+1)))
		if left := remainders(quotas); !slices.Equal(left, want) {
			t.Errorf("host %d of the first network: %v remain, want %v", i+1, left, want)
		}
	}
	if left := remainders(usageOf(t, n.Get(t, "/usage", "X-Forwarded-For: "+address(2, 1)))); !slices.Equal(left, []int64{1, 2, 0}) {
		t.Errorf("the second network: %v remain, want 1, 2, 0", left)
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
	t.Parallel()
	policy := func(name, mode string) string {
		return "policy " + name + " {\nkey {header.X-" + name + "}\nlimit 2\nwindow 24h\n" + mode + "\n}\n"
	}
	for source, option := range caddytest.Stores(t) {
		t.Run(source, func(t *testing.T) {
			n := caddytest.Start(t, caddytest.Config(option, "redis_ratelimit {\n"+policy("Stand", "ipv4_prefix 8\non_empty_key client_ip")+policy("Skip", "")+
				policy("Must", "on_empty_key reject")+"on_empty_key skip\nusage /usage\n}"+caddytest.ShowDecision))
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
				given, err := json.Marshal(lists)
				if err != nil {
					t.Fatal(err)
				}
				var explained []string
				for _, p := range n.Explain(t, "/", string(given)).Policies {
					explained = append(explained, p.Decision)
				}
				if got := strings.Join(explained, " "); got != test.explained {
					t.Errorf("%s: explained as %s, want %s", test.headers, got, test.explained)
				}
				if a := n.Get(t, "/", headers...); a.Status != test.status {
					t.Errorf("%s: got %v; want %d", test.headers, a, test.status)
				}
			}
			if a := n.Get(t, "/usage", "X-Skip: d"); a.Status != http.StatusBadRequest {
				t.Errorf("got %v; want no quotas without the key that must be", a)
			}
			if left := remainders(usageOf(t, n.Get(t, "/usage", "X-Must: a"))); !slices.Equal(left, []int64{0, 1}) {
				t.Errorf("%v remain, want 0 of the address and 1 of the key", left)
			}
		})
	}
}
