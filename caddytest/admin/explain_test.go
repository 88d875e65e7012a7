package admin

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// winding is a site whose limits are reached through every kind of route.
const winding = `
	@gold header X-Plan gold
	map {header.X-Key} {plan.limit} {plan.weight} {
		a 10 2
		b 5 3
		default "" ""
	}
	vars tenant {header.X-Tenant}
	redir /old /new
	rewrite /alias /api/renamed
	handle_path /strip/* {
		redis_ratelimit {path} 8 24h {
			name stripped
		}
		respond "stripped"
	}
	handle /api/* {
		redis_ratelimit {
			policy plan {
				key {vars.tenant}
				limit {plan.limit} 4
				window 24h
				weight {plan.weight} 1
			}
			policy gold {
				key {vars.tenant}
				limit 3
				window 24h
				match @gold
			}
			policy pretended {
				key {vars.tenant}
				limit 1
				window 24h
				dry_run
			}
			exempt 192.0.2.0/24
			on_empty_key reject
		}
		respond "api"
	}
	handle /named/* {
		invoke counted
	}
	handle {
		redis_ratelimit {path} 6 24h {
			name rest
		}
		respond "rest"
	}`

// TestExplain_request explains each request before it is sent, and compares both results.
func TestExplain_request(t *testing.T) {
	t.Parallel()
	caddytest.OnBothStores(t, func(t *testing.T, option, _ string) {
		text := caddytest.Config(option, winding)
		n := caddytest.Start(t, "{\n"+text[2:len(text)-len("}\n")]+"}\n\n&(counted) {\n\tredis_ratelimit {path} 7 24h {\n\t\tname named\n\t}\n\trespond named\n}\n")
		for _, test := range []struct{ path, headers string }{
			{"/", ""}, {"/some/where", ""}, {"/old", ""}, {"/named/x", ""}, {"/strip/x", ""}, {"/strip/y", ""},
			{"/api/x", `{"X-Tenant":["t1"]}`},
			{"/alias", `{"X-Tenant":["t2"],"X-Key":["a"]}`},
			{"/api/x", `{"X-Tenant":["t3"],"X-Key":["b"],"X-Plan":["gold"]}`},
			{"/api/x", `{"X-Tenant":"t4","X-Plan":"gold"}`},
			{"/api/x", `{}`},
		} {
			for i := range 6 {
				t.Run(fmt.Sprint(test.path, test.headers, "/", i), func(t *testing.T) {
					foretold := n.Explain(t, test.path, test.headers)
					var headers map[string]any // a string, or a list of strings
					if test.headers != "" {
						if err := json.Unmarshal([]byte(test.headers), &headers); err != nil {
							t.Fatal(err)
						}
					}
					var lines []string
					for name, values := range headers {
						lines = append(lines, name+": "+strings.Trim(fmt.Sprint(values), "[]"))
					}
					checkForetold(t, foretold, n.Get(t, test.path, lines...))
				})
			}
		}
		if e := n.ExplainFor(t, "/api/x", `{"X-Tenant":["t1"]}`, "192.0.2.77"); e.Decision != "exempt" || len(e.Policies) != 0 {
			t.Errorf("an exempt client: %+v", e)
		}
	})
}

// checkForetold compares the explanation with the response.
func checkForetold(t *testing.T, e caddytest.Explanation, a caddytest.Response) {
	t.Helper()
	want := map[string]int{"allowed": 200, "denied": 429, "rejected": 400, "none": 302, "exempt": 200}[e.Decision]
	if a.Status != want {
		t.Errorf("foretold %+v, got %v", e, a)
	}
	remaining, err := strconv.ParseInt(a.Header.Get("X-Ratelimit-Remaining"), 10, 64)
	if err != nil {
		if e.Decision == "allowed" || e.Decision == "denied" {
			t.Errorf("foretold %+v, got %v", e, a)
		}
		return
	}
	for i := range e.Policies {
		p := &e.Policies[i]
		left := p.Remaining
		if e.Decision == "allowed" {
			left -= p.Weight
		}
		if !p.DryRun && left == remaining && a.Header.Get("X-Ratelimit-Limit") == fmt.Sprint(p.Limit) {
			return
		}
	}
	t.Errorf("foretold %+v, got %v", e, a)
}
