package caddytest

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
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

// explained holds the tested fields of an explanation.
type explained struct {
	Decision string
	Policies []explainedPolicy
}

type explainedPolicy struct {
	Policy, Decision, Source string
	DryRun                   bool `json:"dry_run"`
	Limit, Remaining         int64
	Weight                   int64
}

// TestExplain_request explains each request before it is sent, and compares both results.
func TestExplain_request(t *testing.T) {
	onBothStores(t, func(t *testing.T, option, _ string) {
		text := config(option, winding)
		n := start(t, "{\n"+text[2:len(text)-len("}\n")]+"}\n\n&(counted) {\n\tredis_ratelimit {path} 7 24h {\n\t\tname named\n\t}\n\trespond named\n}\n")
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
					foretold := n.explain(t, test.path, test.headers)
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
					checkForetold(t, foretold, n.get(t, test.path, lines...))
				})
			}
		}
		if e := n.explainFor(t, "/api/x", `{"X-Tenant":["t1"]}`, "192.0.2.77"); e.Decision != "exempt" || len(e.Policies) != 0 {
			t.Errorf("an exempt client: %+v", e)
		}
	})
}

func (n *node) explain(t *testing.T, path, headers string) explained {
	t.Helper()
	return n.explainFor(t, path, headers, "127.0.0.1")
}

func (n *node) explainFor(t *testing.T, path, headers, client string) explained {
	t.Helper()
	if headers == "" {
		headers = "{}"
	}
	return asked[explained](t, n.ask(t, "POST", "explain", `{"url":"`+n.URL+path+`","client_ip":"`+client+`","headers":`+headers+`}`))
}

// checkForetold compares the explanation with the response.
func checkForetold(t *testing.T, e explained, a answer) {
	t.Helper()
	want := map[string]int{"allowed": 200, "denied": 429, "rejected": 400, "none": 302, "exempt": 200}[e.Decision]
	if a.status != want {
		t.Errorf("foretold %+v, got %v", e, a)
	}
	remaining, err := strconv.ParseInt(a.header.Get("X-Ratelimit-Remaining"), 10, 64)
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
		if !p.DryRun && left == remaining && a.header.Get("X-Ratelimit-Limit") == fmt.Sprint(p.Limit) {
			return
		}
	}
	t.Errorf("foretold %+v, got %v", e, a)
}
