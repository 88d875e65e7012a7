package requests

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
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
	assert.FatalIf(t, a.Status != http.StatusOK || a.Header.Get("Cache-Control") != "no-store", "got %v; want the quotas, not to be stored", a)
	return caddytest.ParseJSON[struct{ Policies []usageQuota }](t, a).Policies
}

const usageSite = `redis_ratelimit /api/* {
		policy search { match path /api/search; key {query.k}; limit 3; window 400d; algorithm fixed_window; weight 2 }
		policy all { key {query.k}; limit 10; window 7d; algorithm fixed_window; ban 1h }
		policy tried { key {query.k}; limit 1; window 24h; dry_run }
		exempt 127.0.0.2
		usage /api/quota
	}` + caddytest.ShowDecision

// TestUsage shows a client's quotas, whatever the policies match, and charges nothing.
func TestUsage(t *testing.T) {
	t.Parallel()
	stores := caddytest.Stores(t)
	stores["cluster"] = caddytest.OnCluster(t)
	for store, option := range stores {
		t.Run(store, func(t *testing.T) {
			n := caddytest.Start(t, caddytest.Config(option, usageSite))
			n.Get(t, "/api/search?k=a")
			for range 5 {
				quotas := usageOf(t, n.Get(t, "/api/quota?k=a"))
				if len(quotas) != 2 || quotas[0].Name != "search" || quotas[0].Limit != 3 || quotas[0].Remaining != 1 || quotas[0].Window != 34_560_000 ||
					quotas[0].RetryAfter <= 0 || quotas[0].RetryAfter != quotas[0].ResetAfter {
					t.Fatalf("got %+v", quotas)
				}
				q := quotas[1]
				assert.FatalIf(t, q.Name != "all" || q.Remaining != 9 || q.Window != 604800 || q.RetryAfter != 0 || q.ResetAfter <= 0, "got %+v", q)
			}
			caddytest.CheckQuota(t, n.Get(t, "/api/quota?k=a"), 3, 1)
			if a := n.Send(t, http.MethodHead, n.URL+"/api/quota?k=a", ""); a.Status != http.StatusOK || a.Body != "" || a.Header.Get("Content-Length") == "" || !caddytest.HasQuota(a) {
				t.Errorf("HEAD: got %v", a)
			}
			n.Send(t, http.MethodPost, n.URL+"/api/quota?k=a", "").Want(t, 0, "allowed*") // a request as any other
			quotas := usageOf(t, n.Get(t, "/api/quota?k=fresh"))
			assert.ErrorIf(t, quotas[0].Remaining != 3 || quotas[0].ResetAfter != 0 || quotas[1].Remaining != 10, "got %+v", quotas)
			got := n.Metric(t, `decisions_total{decision="allowed",policy="all",source="memory"}`) + n.Metric(t, `decisions_total{decision="allowed",policy="all",source="redis"}`)
			assert.ErrorIf(t, got != 2, "%v requests are counted, want 2", got)
		})
	}
}

// TestUsage_refused shows banned, blocked and exempt clients what is true for them.
func TestUsage_refused(t *testing.T) {
	caddytest.OnEachStore(t, usageSite, func(t *testing.T, n *caddytest.Node, _ string) {
		n.GetTimes(t, 11, "/api/?k=bad")
		q := usageOf(t, n.Get(t, "/api/quota?k=bad"))[1]
		assert.ErrorIf(t, q.Remaining != 0 || q.RetryAfter < 3000, "banned: got %+v", q)
		for body, check := range map[string]func(q usageQuota) bool{
			`"block":true,"for":"1h"`: func(q usageQuota) bool { return q.Remaining == 0 && q.RetryAfter > 3500 && q.RetryAfter <= 3600 },
			`"block":true`:            func(q usageQuota) bool { return q.Remaining == 0 && q.RetryAfter == -1 && q.ResetAfter == -1 },
			`"limit":4`:               func(q usageQuota) bool { return q.Limit == 4 && q.Remaining == 4 },
		} {
			n.Override(t, http.StatusOK, `{"policy":"search","key":"o",`+body+`}`)
			assert.Retry(t, "the override "+body, func() (again bool, seen any) {
				quotas := usageOf(t, n.Get(t, "/api/quota?k=o"))
				return len(quotas) != 2 || !check(quotas[0]) || quotas[1].Remaining != 10, quotas
			})
		}
		n.Ask(t, http.MethodPost, "override", `{"policy":"search","key":"o","exempt":true}`)
		assert.Retry(t, "the exemption", func() (again bool, seen any) {
			quotas := usageOf(t, n.Get(t, "/api/quota?k=o"))
			return len(quotas) != 1 || quotas[0].Name != "all", quotas
		})
	})
}

// TestUsage_paths asks at paths that are, or are not, the one of the option by Caddy's rules.
func TestUsage_paths(t *testing.T) {
	n := caddytest.InProcess(t, "redis_ratelimit {\nkey {query.k}\nlimit 5\nwindow 24h\nusage /my/quota\nexempt 127.0.0.1\n}\n@there path /my/quota\nrespond @there there\nrespond elsewhere")
	for _, path := range []string{
		"/my/quota", "/MY/Quota", "//my//quota", "/my/./quota", "/x/../my/quota", "/m%79/quota", "/my%2Fquota", "/my/quota/", "/my/quota/x",
		"/my/quot", "/my/quota%00", "/my/quota;x", "/my/quota%3Fk=1", "/my/quota?k=a", "/my/%2e%2e/my/quota", "/my/quota%20", "/my\\quota", "/ſmy/quota",
	} {
		a := n.Send(t, http.MethodGet, n.URL+path, "")
		answered := strings.HasPrefix(a.Body, `{"policies":[]}`)
		there := n.Send(t, http.MethodPost, n.URL+path, "").Body == "there"
		assert.ErrorIf(t, answered != there, "%s: got %v; Caddy's path matcher says %v", path, a, there)
	}
}

// TestUsage_outage asks while Redis is gone, in each fail mode.
func TestUsage_outage(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string]int{"local": http.StatusOK, "open": http.StatusServiceUnavailable, "closed": http.StatusServiceUnavailable} {
		t.Run(mode, func(t *testing.T) {
			n, server := caddytest.OnRedis(t, "timeout 10s", "redis_ratelimit {\nkey {query.k}\nlimit 5\nwindow 24h\nfail_mode "+mode+"\nanswer problem\nusage /quota\n}"+caddytest.ShowDecision)
			n.Get(t, "/?k=a")
			server.Kill()
			a := n.Get(t, "/quota?k=a").Want(t, want, caddytest.Any, "Cache-Control: no-store")
			if mode == "local" {
				quotas := usageOf(t, a)
				assert.ErrorIf(t, quotas[0].Remaining != 4, "got %+v; want what this node knows", quotas)
			} else if a.Header.Get("Retry-After") == "" || !strings.Contains(a.Body, "temporary-reduced-capacity") {
				t.Errorf("got %v", a)
			}
			n.AwaitBreaker(t, "/?k=a")
			n.WantTimes(t, 20, "/quota?k=a", want, caddytest.Any)
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
		quotas := usageOf(t, n.Get(t, "/quota?k=a"))
		assert.FatalIf(t, quotas[0].Remaining != 4, "got %+v", quotas)
	}
	looks, most := runs()-before, 12+int(time.Since(began)/(100*time.Millisecond))
	assert.ErrorIf(t, looks > most || looks < 10, "a thousand looks in %v are %d script runs, want 10 to %d", time.Since(began), looks, most)
	n.Get(t, "/?k=a")
	n.Await(t, "/quota?k=a", 0, `*"remaining":3,*`) // the answer is true again
}

// TestUsage_keyless refuses clients without a key as requests are refused.
func TestUsage_keyless(t *testing.T) {
	n := caddytest.InProcess(t, "redis_ratelimit {\nkey {query.k}\nlimit 5\nwindow 24h\nusage /quota\non_empty_key reject\n}"+caddytest.ShowDecision)
	n.Get(t, "/quota").Want(t, http.StatusBadRequest, caddytest.Any)
	assert.Equal(t, n.Explain(t, "/quota?k=a", "").Decision, "usage", "the explained decision")
}

const calendarSite = `redis_ratelimit {
		policy monthly { key {query.k}; limit 5; window month America/Santiago; weight {query.w} 1 }
		policy yearly { key {query.other}; limit 100; window year }
		policy long { key {query.k}; limit 50; window 400d; algorithm fixed_window }
		headers x_ratelimit ietf
		usage /quota
	}` + caddytest.ShowDecision

// TestCalendar has a month of a zone on every store: the quota, what clients see of it, and the word.
func TestCalendar(t *testing.T) {
	t.Parallel()
	zone := assert.NoError(time.LoadLocation("America/Santiago"))(t)
	stores := caddytest.Stores(t)
	stores["cluster"] = caddytest.OnCluster(t)
	for store, option := range stores {
		t.Run(store, func(t *testing.T) {
			n := caddytest.Start(t, caddytest.Config(option, calendarSite))
			for i := range 4 { // keys of several slots
				k := fmt.Sprint("k", i)
				begins := time.Now().In(zone)
				ends := time.Date(begins.Year(), begins.Month()+1, 1, 0, 0, 0, 0, zone)
				if time.Until(ends) < time.Minute {
					t.Skip("a month of Santiago ends while this runs")
				}
				passed := n.Get(t, "/?w=3&k="+k+"&other="+k).
					Want(t, http.StatusOK, caddytest.Any, "X-RateLimit-Limit: 5", "X-RateLimit-Remaining: 2")
				reset, _ := strconv.ParseInt(passed.Header.Get("X-RateLimit-Reset"), 10, 64)
				difference := reset - ends.Unix()
				assert.ErrorIf(t, difference < -1 || difference > 1, "reset at %d, the month ends at %d", reset, ends.Unix())
				passed.Want(t, 0, caddytest.Any, `RateLimit-Policy: "monthly";q=5, "yearly";q=100, "long";q=50;w=34560000`)
				denied := n.Get(t, "/?w=3&k="+k+"&other="+k).Want(t, http.StatusTooManyRequests, caddytest.Any, "Retry-After: *")
				retry, _ := strconv.ParseInt(denied.Header.Get("Retry-After"), 10, 64)
				after := time.Duration(retry)*time.Second - ends.Sub(denied.Sent)
				assert.ErrorIf(t, after > 2*time.Second || after+denied.Took < -2*time.Second, "Retry-After is %d, the month ended %v after %v", retry, ends.Sub(denied.Sent), denied)
				quotas := caddytest.ParseJSON[struct {
					Policies []struct {
						Name      string
						Remaining int64
						Window    any
					}
				}](t, n.Get(t, "/quota?k="+k+"&other="+k)).Policies
				assert.Equal(t, fmt.Sprint(quotas), "[{monthly 2 month} {yearly 99 year} {long 49 3.456e+07}]", "the page of quotas")
			}
		})
	}
}
