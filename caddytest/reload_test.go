package caddytest

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// stores returns the global option for each store, by the source of its decisions.
func stores(t *testing.T) map[string]string {
	t.Helper()
	return map[string]string{"memory": "", "redis": patient(redistest.Start(t))}
}

func TestReload_counts(t *testing.T) {
	for source, global := range stores(t) {
		t.Run(source, func(t *testing.T) {
			site := "redis_ratelimit same 5 24h" + showDecision
			n := start(t, config(global, site))
			for i := range int64(5) {
				a := n.get(t, "/")
				checkAdmitted(t, a, source)
				checkQuota(t, a, 5, 4-i)
				n.reload(t, config(global, site+"\nheader X-Round "+strings.Repeat("x", int(i+1))))
			}
			checkRefusal(t, n.get(t, "/"), http.StatusTooManyRequests)
		})
	}
}

func TestReload_otherLimit(t *testing.T) {
	for source, global := range stores(t) {
		t.Run(source, func(t *testing.T) {
			n := start(t, config(global, "redis_ratelimit same 5 24h"+showDecision))
			for range 4 {
				checkAdmitted(t, n.get(t, "/"), source)
			}
			n.reload(t, config(global, "redis_ratelimit same 10 24h"+showDecision))
			checkQuota(t, n.get(t, "/"), 10, 5)
			n.reload(t, config(global, "redis_ratelimit same 3 24h"+showDecision))
			checkRefusal(t, n.get(t, "/"), http.StatusTooManyRequests)
			n.reload(t, config(global, "redis_ratelimit same 20 24h"+showDecision))
			checkQuota(t, n.get(t, "/"), 20, 14)
		})
	}
}

func TestReload_otherWindow(t *testing.T) {
	for source, global := range stores(t) {
		t.Run(source, func(t *testing.T) {
			n := start(t, config(global, "redis_ratelimit same 1 24h"+showDecision))
			checkAdmitted(t, n.get(t, "/"), source)
			n.reload(t, config(global, "redis_ratelimit same 1 48h"+showDecision))
			checkAdmitted(t, n.get(t, "/"), source)
		})
	}
}

func TestReload_failed(t *testing.T) {
	const site = "redis_ratelimit same 5 24h" + showDecision
	for source, global := range stores(t) {
		mistakes := map[string]struct{ text, complaint string }{
			"a syntax error":             {config(global, site) + ":1 {\n", "expecting '}'"},
			"a wrong option":             {config(global, "redis_ratelimit same 5 0s"), "window"},
			"two meanings of a name":     {config(global, "redis_ratelimit /a same 5 24h\nredis_ratelimit /b same 6 24h"), "two meanings"},
			"another module's error":     {config(global, site+"\ntls /nowhere.pem /nowhere.key"), "nowhere.pem"},
			"an unresolved placeholder":  {config("redis_ratelimit {\nredis redis://:{env.NOWHERE}@127.0.0.1:1\n}", site), "env.NOWHERE"},
			"a missing certificate file": {config("redis_ratelimit {\nredis {\naddress 127.0.0.1:1\ntls {\nca /nowhere.pem\n}\n}\n}", site), "nowhere.pem"},
		}
		t.Run(source, func(t *testing.T) {
			n := start(t, config(global, site))
			checkAdmitted(t, n.get(t, "/"), source)
			for name, mistake := range mistakes {
				a := n.load(t, mistake.text)
				if a.status != http.StatusBadRequest || !strings.Contains(a.body, mistake.complaint) {
					t.Errorf("reload with %s: %v; want status 400 and %q", name, a, mistake.complaint)
				}
			}
			checkQuota(t, n.get(t, "/"), 5, 3)
			n.reload(t, config(global, site+"\nheader X-Round 2"))
			checkQuota(t, n.get(t, "/"), 5, 2)
		})
	}
}

// TestReload_failedStart loads configurations whose server cannot listen. Caddy starts apps in any order,
// so that only some of them start the limits first.
func TestReload_failedStart(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() }) // it has no connections
	const site = "redis_ratelimit {query.k} 5 24h" + showDecision
	failing := config("redis_ratelimit {\nmemory {\nmax_keys 1\n}\n}", site) + "http://" + taken.Addr().String() + " {\nrespond x\n}\n"
	for source, global := range stores(t) {
		t.Run(source, func(t *testing.T) {
			n := start(t, config(global, site))
			checkAdmitted(t, n.get(t, "/?k=first"), source)
			for range 12 {
				if a := n.load(t, failing); a.status != http.StatusBadRequest || !strings.Contains(a.body, "address already in use") {
					t.Fatalf("got %v; want the load to fail", a)
				}
				answer := n.ask(t, "GET", "policies", "")
				report := asked[struct {
					Store struct {
						Kind    string
						MaxKeys int `json:"max_keys"`
					}
				}](t, answer)
				if answer.status != http.StatusOK || report.Store.Kind != source || report.Store.MaxKeys != 1_000_000 {
					t.Fatalf("got %v", answer)
				}
			}
			for i := range 3 {
				n.get(t, fmt.Sprint("/?k=", i))
			}
			n.checkMetric(t, "memory_keys", 4)
			n.checkMetric(t, "memory_overflows_total", 0)
		})
	}
}

// TestConflict_JSON loads a configuration that no Caddyfile yields.
func TestConflict_JSON(t *testing.T) {
	n := start(t, config("", "redis_ratelimit same 5 24h"+showDecision))
	handler := func(limit string) string {
		return `{"handle":[{"handler":"redis_ratelimit","policies":[{"name":"p","limit":` + limit + `,"window":"1m"}]}]}`
	}
	text := `{"apps":{"http":{"servers":{"s":{"listen":["127.0.0.1:0"],"routes":[` + handler("5") + "," + handler("6") + `]}}}}}`
	a := n.send(t, http.MethodPost, n.Admin+"/load", text, "Content-Type: application/json")
	for _, part := range []string{`policy \"p\"`, "limit 5,", "limit 6,"} {
		if a.status != http.StatusBadRequest || !strings.Contains(a.body, part) {
			t.Errorf("got %v; want status 400 and %s", a, part)
		}
	}
	checkQuota(t, n.get(t, "/"), 5, 4)
}
