package requests

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// usageQuota is what a client gets of one quota.
type usageQuota struct {
	Name       string
	Limit      int64
	Remaining  int64
	ResetAfter float64 `json:"reset_after"`
	RetryAfter float64 `json:"retry_after"`
	Window     float64
}

// usageOf returns what a client gets of its quotas.
func usageOf(t *testing.T, a caddytest.Response) []usageQuota {
	t.Helper()
	if a.Status != http.StatusOK || a.Header.Get("Cache-Control") != "no-store" {
		t.Fatalf("got %v; want the quotas, not to be stored", a)
	}
	return caddytest.ParseJSON[struct{ Policies []usageQuota }](t, a).Policies
}

const usageSite = `redis_ratelimit /api/* {
		policy search {
			match path /api/search
			key {query.k}
			limit 3
			window 24h
			algorithm fixed_window
			weight 2
		}
		policy all {
			key {query.k}
			limit 10
			window 7d
			algorithm fixed_window
			ban 1h
		}
		policy tried {
			key {query.k}
			limit 1
			window 24h
			dry_run
		}
		exempt 127.0.0.2
		usage /api/quota
	}` + caddytest.ShowDecision

// TestUsage shows a client's quotas, whatever the policies match, and charges nothing.
func TestUsage(t *testing.T) {
	t.Parallel()
	stores := caddytest.Stores(t)
	stores["cluster"] = "redis_ratelimit {\nredis {\nmode cluster\naddress " + redistest.StartCluster(t)[0].Addr + "\n}\ntimeout 10s\n}"
	for store, option := range stores {
		t.Run(store, func(t *testing.T) {
			n := caddytest.Start(t, caddytest.Config(option, usageSite))
			n.Get(t, "/api/search?k=a")
			for range 5 {
				quotas := usageOf(t, n.Get(t, "/api/quota?k=a"))
				if len(quotas) != 2 || quotas[0].Name != "search" || quotas[0].Limit != 3 || quotas[0].Remaining != 1 || quotas[0].Window != 86400 ||
					quotas[0].RetryAfter <= 0 || quotas[0].RetryAfter != quotas[0].ResetAfter {
					t.Fatalf("got %+v", quotas)
				}
				if q := quotas[1]; q.Name != "all" || q.Remaining != 9 || q.Window != 604800 || q.RetryAfter != 0 || q.ResetAfter <= 0 {
					t.Fatalf("got %+v", q)
				}
			}
			a := n.Get(t, "/api/quota?k=a")
			caddytest.CheckQuota(t, a, 3, 1)
			if a := n.Send(t, http.MethodHead, n.URL+"/api/quota?k=a", ""); a.Status != http.StatusOK || a.Body != "" || a.Header.Get("Content-Length") == "" || !caddytest.HasQuota(a) {
				t.Errorf("HEAD: got %v", a)
			}
			if a := n.Send(t, http.MethodPost, n.URL+"/api/quota?k=a", ""); !strings.HasPrefix(a.Body, "allowed") {
				t.Errorf("POST: got %v; want a request as any other", a)
			}
			if quotas := usageOf(t, n.Get(t, "/api/quota?k=fresh")); quotas[0].Remaining != 3 || quotas[0].ResetAfter != 0 || quotas[1].Remaining != 10 {
				t.Errorf("got %+v", quotas)
			}
			if got := n.Metric(t, `decisions_total{decision="allowed",policy="all",source="memory"}`) + n.Metric(t, `decisions_total{decision="allowed",policy="all",source="redis"}`); got != 2 {
				t.Errorf("%v requests are counted, want 2", got)
			}
		})
	}
}

// TestUsage_refused shows banned, blocked and exempt clients what is true for them.
func TestUsage_refused(t *testing.T) {
	t.Parallel()
	caddytest.OnBothStores(t, func(t *testing.T, option, _ string) {
		n := caddytest.Start(t, caddytest.Config(option, usageSite))
		for range 11 {
			n.Get(t, "/api/?k=bad")
		}
		q := usageOf(t, n.Get(t, "/api/quota?k=bad"))[1]
		if q.Remaining != 0 || q.RetryAfter < 3000 {
			t.Errorf("banned: got %+v", q)
		}
		for body, check := range map[string]func(q usageQuota) bool{
			`"block":true,"for":"1h"`: func(q usageQuota) bool { return q.Remaining == 0 && q.RetryAfter > 3500 && q.RetryAfter <= 3600 },
			`"block":true`:            func(q usageQuota) bool { return q.Remaining == 0 && q.RetryAfter == -1 && q.ResetAfter == -1 },
			`"limit":4`:               func(q usageQuota) bool { return q.Limit == 4 && q.Remaining == 4 },
		} {
			if a := n.Ask(t, http.MethodPost, "override", `{"policy":"search","key":"o",`+body+`}`); a.Status != http.StatusOK {
				t.Fatal(a)
			}
			redistest.WaitFor(t, "the override "+body, func() error {
				quotas := usageOf(t, n.Get(t, "/api/quota?k=o"))
				if len(quotas) != 2 || !check(quotas[0]) || quotas[1].Remaining != 10 {
					return fmt.Errorf("got %+v", quotas)
				}
				return nil
			})
		}
		n.Ask(t, http.MethodPost, "override", `{"policy":"search","key":"o","exempt":true}`)
		redistest.WaitFor(t, "the exemption", func() error {
			if quotas := usageOf(t, n.Get(t, "/api/quota?k=o")); len(quotas) != 1 || quotas[0].Name != "all" {
				return fmt.Errorf("got %+v", quotas)
			}
			return nil
		})
	})
}

// TestUsage_paths asks at paths that are, or are not, the one of the option by Caddy's rules.
func TestUsage_paths(t *testing.T) {
	t.Parallel()
	n := caddytest.Start(t, caddytest.Config("", "redis_ratelimit {\nkey {query.k}\nlimit 5\nwindow 24h\nusage /my/quota\nexempt 127.0.0.1\n}\n@there path /my/quota\nrespond @there there\nrespond elsewhere"))
	for _, path := range []string{
		"/my/quota", "/MY/Quota", "//my//quota", "/my/./quota", "/x/../my/quota", "/m%79/quota", "/my%2Fquota", "/my/quota/", "/my/quota/x",
		"/my/quot", "/my/quota%00", "/my/quota;x", "/my/quota%3Fk=1", "/my/quota?k=a", "/my/%2e%2e/my/quota", "/my/quota%20", "/my\\quota", "/ſmy/quota",
	} {
		a := n.Send(t, http.MethodGet, n.URL+path, "")
		answered := strings.HasPrefix(a.Body, `{"policies":[]}`)
		there := n.Send(t, http.MethodPost, n.URL+path, "").Body == "there"
		if answered != there {
			t.Errorf("%s: got %v; Caddy's path matcher says %v", path, a, there)
		}
	}
}

// TestUsage_outage asks while Redis is gone, in each fail mode.
func TestUsage_outage(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string]int{"local": http.StatusOK, "open": http.StatusServiceUnavailable, "closed": http.StatusServiceUnavailable} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			n := caddytest.Start(t, caddytest.Config("redis_ratelimit {\nredis redis://"+server.Addr+"\ntimeout 2s\n}",
				"redis_ratelimit {\nkey {query.k}\nlimit 5\nwindow 24h\nfail_mode "+mode+"\nproblem_details\nusage /quota\n}"+caddytest.ShowDecision))
			n.Get(t, "/?k=a")
			server.Kill()
			a := n.Get(t, "/quota?k=a")
			if a.Status != want || a.Header.Get("Cache-Control") != "no-store" {
				t.Fatalf("got %v, want %d", a, want)
			}
			if mode == "local" {
				if quotas := usageOf(t, a); quotas[0].Remaining != 4 {
					t.Errorf("got %+v; want what this node knows", quotas)
				}
			} else if a.Header.Get("Retry-After") == "" || !strings.Contains(a.Body, "temporary-reduced-capacity") {
				t.Errorf("got %v", a)
			}
			redistest.WaitFor(t, "the breaker is open", func() error {
				if n.Get(t, "/?k=a"); n.Metric(t, "breaker_open") != 1 {
					return fmt.Errorf("it is not")
				}
				return nil
			})
			for range 20 {
				if a := n.Get(t, "/quota?k=a"); a.Status != want {
					t.Errorf("got %v, want %d", a, want)
				}
			}
		})
	}
}

// TestUsage_flood looks a thousand times: Redis gets a few commands, and the last answer is true.
func TestUsage_flood(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	n := caddytest.Start(t, caddytest.Quietly(caddytest.Config(caddytest.PatientRedis(server), "redis_ratelimit {\nkey {query.k}\nlimit 5\nwindow 24h\nusage /quota\n}"+caddytest.ShowDecision)))
	runs := func() int {
		text := server.Client(t).Info(t.Context(), "commandstats").Val()
		_, calls, _ := strings.Cut(text, "cmdstat_evalsha:calls=")
		var count int
		_, _ = fmt.Sscanf(calls, "%d", &count)
		return count
	}
	n.Get(t, "/?k=a")
	before, began := runs(), time.Now()
	for range 1000 {
		if quotas := usageOf(t, n.Get(t, "/quota?k=a")); quotas[0].Remaining != 4 {
			t.Fatalf("got %+v", quotas)
		}
	}
	looks, most := runs()-before, 12+int(time.Since(began)/(100*time.Millisecond))
	if looks > most || looks < 10 {
		t.Errorf("a thousand looks in %v are %d script runs, want 10 to %d", time.Since(began), looks, most)
	}
	n.Get(t, "/?k=a")
	redistest.WaitFor(t, "the answer is true again", func() error {
		if quotas := usageOf(t, n.Get(t, "/quota?k=a")); quotas[0].Remaining != 3 {
			return fmt.Errorf("got %+v", quotas)
		}
		return nil
	})
}

// TestUsage_keyless refuses clients without a key as requests are refused.
func TestUsage_keyless(t *testing.T) {
	t.Parallel()
	n := caddytest.Start(t, caddytest.Config("", "redis_ratelimit {\nkey {query.k}\nlimit 5\nwindow 24h\nusage /quota\non_empty_key reject\n}"+caddytest.ShowDecision))
	if a := n.Get(t, "/quota"); a.Status != http.StatusBadRequest {
		t.Errorf("got %v", a)
	}
	if e := n.Explain(t, "/quota?k=a", ""); e.Decision != "usage" {
		t.Errorf("explained as %+v", e)
	}
}
