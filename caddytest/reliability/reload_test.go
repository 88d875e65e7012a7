package reliability

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

func TestReload_counts(t *testing.T) {
	t.Parallel()
	for source, global := range caddytest.Stores(t) {
		t.Run(source, func(t *testing.T) {
			site := "redis_ratelimit same 5 24h" + caddytest.ShowDecision
			n := caddytest.Start(t, caddytest.Config(global, site))
			for i := range int64(5) {
				a := n.Get(t, "/")
				caddytest.CheckAdmitted(t, a, source)
				caddytest.CheckQuota(t, a, 5, 4-i)
				n.Reload(t, caddytest.Config(global, site+"\nheader X-Round "+strings.Repeat("x", int(i+1))))
			}
			caddytest.CheckRefusal(t, n.Get(t, "/"), http.StatusTooManyRequests)
		})
	}
}

func TestReload_otherLimit(t *testing.T) {
	t.Parallel()
	for source, global := range caddytest.Stores(t) {
		t.Run(source, func(t *testing.T) {
			n := caddytest.Start(t, caddytest.Config(global, "redis_ratelimit same 5 24h"+caddytest.ShowDecision))
			for range 4 {
				caddytest.CheckAdmitted(t, n.Get(t, "/"), source)
			}
			n.Reload(t, caddytest.Config(global, "redis_ratelimit same 10 24h"+caddytest.ShowDecision))
			caddytest.CheckQuota(t, n.Get(t, "/"), 10, 5)
			n.Reload(t, caddytest.Config(global, "redis_ratelimit same 3 24h"+caddytest.ShowDecision))
			caddytest.CheckRefusal(t, n.Get(t, "/"), http.StatusTooManyRequests)
			n.Reload(t, caddytest.Config(global, "redis_ratelimit same 20 24h"+caddytest.ShowDecision))
			caddytest.CheckQuota(t, n.Get(t, "/"), 20, 14)
		})
	}
}

func TestReload_otherWindow(t *testing.T) {
	t.Parallel()
	for source, global := range caddytest.Stores(t) {
		t.Run(source, func(t *testing.T) {
			n := caddytest.Start(t, caddytest.Config(global, "redis_ratelimit same 1 24h"+caddytest.ShowDecision))
			caddytest.CheckAdmitted(t, n.Get(t, "/"), source)
			n.Reload(t, caddytest.Config(global, "redis_ratelimit same 1 48h"+caddytest.ShowDecision))
			caddytest.CheckAdmitted(t, n.Get(t, "/"), source)
		})
	}
}

func TestReload_failed(t *testing.T) {
	t.Parallel()
	const site = "redis_ratelimit same 5 24h" + caddytest.ShowDecision
	for source, global := range caddytest.Stores(t) {
		mistakes := map[string]struct{ text, complaint string }{
			"a syntax error":             {caddytest.Config(global, site) + ":1 {\n", "expecting '}'"},
			"a wrong option":             {caddytest.Config(global, "redis_ratelimit same 5 0s"), "window"},
			"two meanings of a name":     {caddytest.Config(global, "redis_ratelimit /a same 5 24h\nredis_ratelimit /b same 6 24h"), "without a name of their own"},
			"another module's error":     {caddytest.Config(global, site+"\ntls /nowhere.pem /nowhere.key"), "nowhere.pem"},
			"an unresolved placeholder":  {caddytest.Config("redis_ratelimit {\nredis redis://:{env.NOWHERE}@127.0.0.1:1\n}", site), "env.NOWHERE"},
			"a missing certificate file": {caddytest.Config("redis_ratelimit {\nredis {\naddress 127.0.0.1:1\ntls {\nca /nowhere.pem\n}\n}\n}", site), "nowhere.pem"},
		}
		t.Run(source, func(t *testing.T) {
			n := caddytest.Start(t, caddytest.Config(global, site))
			caddytest.CheckAdmitted(t, n.Get(t, "/"), source)
			for name, mistake := range mistakes {
				a := n.Load(t, mistake.text)
				if a.Status != http.StatusBadRequest || !strings.Contains(a.Body, mistake.complaint) {
					t.Errorf("reload with %s: %v; want status 400 and %q", name, a, mistake.complaint)
				}
			}
			caddytest.CheckQuota(t, n.Get(t, "/"), 5, 3)
			n.Reload(t, caddytest.Config(global, site+"\nheader X-Round 2"))
			caddytest.CheckQuota(t, n.Get(t, "/"), 5, 2)
		})
	}
}

// TestReload_failedStart loads configurations whose server cannot listen. Caddy starts apps in any order,
// so that only some of them start the limits first.
func TestReload_failedStart(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() }) // it has no connections
	const site = "redis_ratelimit {query.k} 5 24h" + caddytest.ShowDecision
	failing := caddytest.Config("redis_ratelimit {\nmemory {\nmax_keys 1\n}\n}", site) + "http://" + taken.Addr().String() + " {\nrespond x\n}\n"
	for source, global := range caddytest.Stores(t) {
		t.Run(source, func(t *testing.T) {
			n := caddytest.Start(t, caddytest.Config(global, site))
			caddytest.CheckAdmitted(t, n.Get(t, "/?k=first"), source)
			for range 12 {
				if a := n.Load(t, failing); a.Status != http.StatusBadRequest || !strings.Contains(a.Body, "address already in use") {
					t.Fatalf("got %v; want the load to fail", a)
				}
				answer := n.Ask(t, "GET", "policies", "")
				report := caddytest.ParseJSON[struct {
					Store struct {
						Kind    string
						MaxKeys int `json:"max_keys"`
					}
				}](t, answer)
				if answer.Status != http.StatusOK || report.Store.Kind != source || report.Store.MaxKeys != 1_000_000 {
					t.Fatalf("got %v", answer)
				}
			}
			for i := range 3 {
				n.Get(t, fmt.Sprint("/?k=", i))
			}
			n.CheckMetric(t, "memory_keys", 4)
			n.CheckMetric(t, "memory_overflows_total", 0)
		})
	}
}

// TestConflict_JSON loads a configuration that no Caddyfile yields.
func TestConflict_JSON(t *testing.T) {
	t.Parallel()
	n := caddytest.Start(t, caddytest.Config("", "redis_ratelimit same 5 24h"+caddytest.ShowDecision))
	handler := func(limit string) string {
		return `{"handle":[{"handler":"redis_ratelimit","policies":[{"name":"p","limit":` + limit + `,"window":"1m"}]}]}`
	}
	text := `{"apps":{"http":{"servers":{"s":{"listen":["127.0.0.1:0"],"routes":[` + handler("5") + "," + handler("6") + `]}}}}}`
	a := n.Send(t, http.MethodPost, n.Admin+"/load", text, "Content-Type: application/json")
	for _, part := range []string{`policy \"p\"`, "limit 5,", "limit 6,"} {
		if a.Status != http.StatusBadRequest || !strings.Contains(a.Body, part) {
			t.Errorf("got %v; want status 400 and %s", a, part)
		}
	}
	caddytest.CheckQuota(t, n.Get(t, "/"), 5, 4)
}
