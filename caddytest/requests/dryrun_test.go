package requests

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// showDryRun ends a site: the body names the dry-run policies that would have denied.
const showDryRun = "\nrespond \"ok {http.redis_ratelimit.decision} {http.redis_ratelimit.dry_run}\"\n"

// refusingDryRuns are handlers whose policy p would refuse every request without a decision, if it were
// enforced.
var refusingDryRuns = map[string]string{
	"empty key":         "redis_ratelimit {\non_empty_key reject\npolicy p {\nkey {header.X-Key}\nlimit 9\nwindow 24h\ndry_run\n}\n}",
	"matcher":           "redis_ratelimit {\npolicy p {\nlimit 9\nwindow 24h\ndry_run\nmatch `int({query.n}) > 1`\n}\n}",
	"handler":           "redis_ratelimit {\non_empty_key reject\ndry_run\nname p\nkey {header.X-Key}\nlimit 9\nwindow 24h\n}",
	"beside one":        "redis_ratelimit {\non_empty_key reject\npolicy p {\nkey {header.X-Key}\nlimit 9\nwindow 24h\ndry_run\n}\npolicy other {\nkey same\nlimit 9\nwindow 24h\ndry_run\n}\n}",
	"with count and so": "redis_ratelimit {\non_empty_key reject\npolicy p {\nkey {header.X-Key}\nlimit 9\nwindow 24h\ndry_run\ncount_if status 401\ncost response_bytes\n}\n}",
}

func TestDryRun_handlers(t *testing.T) {
	t.Parallel()
	n := caddytest.Start(t, caddytest.Config("", "respond old"))
	for name, limit := range refusingDryRuns {
		t.Run(name, func(t *testing.T) {
			policy := "p_" + strings.ReplaceAll(name, " ", "_")
			limit = strings.NewReplacer("policy p ", "policy "+policy+" ", "name p\n", "name "+policy+"\n").Replace(limit)
			n.Reload(t, caddytest.WithPorts(n, caddytest.Config("", limit+showDryRun)))
			said := len(n.Log.Lines(func(l caddytest.LogLine) bool { return l.Message == "request would be denied" }))
			for _, client := range []string{"one", "two"} {
				a := n.Get(t, "/?n="+client)
				if a.Status != http.StatusOK || a.Body != "ok allowed "+policy || caddytest.HasQuota(a) {
					t.Errorf("got %v", a)
				}
			}
			n.CheckMetric(t, `decisions_total{decision="dry_run_denied",policy="`+policy+`",source="memory"}`, 2)
			lines := n.Log.Lines(func(l caddytest.LogLine) bool { return l.Message == "request would be denied" })[said:]
			if len(lines) != 2 || lines[0].Level != "debug" || !strings.Contains(lines[0].Text, `"policy":"`+policy+`"`) {
				t.Errorf("the log has %v", lines)
			}
			e := n.Explain(t, "/?n=none", "")
			at := slices.IndexFunc(e.Policies, func(p caddytest.ExplainedPolicy) bool { return p.Policy == policy })
			if e.Decision != "allowed" || at < 0 || e.Policies[at].Decision != "rejected" || !e.Policies[at].DryRun {
				t.Errorf("explained as %+v", e)
			}
		})
	}
}

// TestDryRun_besideEnforced has an enforced policy beside one in dry run.
func TestDryRun_besideEnforced(t *testing.T) {
	t.Parallel()
	caddytest.OnBothStores(t, func(t *testing.T, option, source string) {
		n := caddytest.Start(t, caddytest.Config(option, `redis_ratelimit {
			on_empty_key reject
			policy pretended {
				key {header.X-Key}
				limit 9
				window 24h
				dry_run
			}
			policy enforced {
				key same
				limit 2
				window 24h
			}
		}`+caddytest.ShowDecision))
		for left := int64(1); left >= 0; left-- {
			a := n.Get(t, "/")
			caddytest.CheckAdmitted(t, a, source)
			caddytest.CheckQuota(t, a, 2, left)
		}
		a := n.Get(t, "/")
		caddytest.CheckRefusal(t, a, http.StatusTooManyRequests)
		caddytest.CheckQuota(t, a, 2, 0)
		n.CheckMetric(t, `decisions_total{decision="dry_run_denied",policy="pretended",source="memory"}`, 3)
	})
}

// TestDryRun_redisDown has only policies in dry run, and no Redis. The second request would be held for a
// day.
func TestDryRun_redisDown(t *testing.T) {
	t.Parallel()
	n := caddytest.Start(t, caddytest.Config("redis_ratelimit {\nredis redis://"+redistest.FreeAddr(t)+"\nfail_mode closed\n}", `redis_ratelimit {
		policy plain {
			key same
			limit 1
			window 24h
			dry_run
		}
		policy queue {
			key same
			limit 1
			window 24h
			algorithm leaky_bucket
			burst 2
			max_delay 30h
			dry_run
		}
	}`+showDryRun))
	for i, want := range []string{"ok allowed ", "ok allowed plain", "ok allowed plain,queue"} {
		if a := n.Get(t, "/"); a.Status != http.StatusOK || a.Body != want || caddytest.HasQuota(a) {
			t.Errorf("request %d: got %v, want %s", i, a, want)
		}
	}
}

// TestDryRun_countIf has a refused request beside a dry run with count_if.
func TestDryRun_countIf(t *testing.T) {
	t.Parallel()
	away := "redis_ratelimit {\nredis redis://" + redistest.FreeAddr(t) + "\n}"
	for name, test := range map[string]struct{ global, more string }{
		"denied": {"", ""}, "closed": {away, "fail_mode closed"}, "closed, written": {away, "fail_mode closed\nproblem_details"},
	} {
		t.Run(name, func(t *testing.T) {
			n := caddytest.Start(t, caddytest.Config(test.global, `redis_ratelimit {
				policy enforced {
					key same
					limit 1
					window 24h
				}
				policy pretended {
					key same
					limit 5
					window 24h
					count_if status 401
					dry_run
				}
				`+test.more+`
			}
			respond ok
			handle_errors 404 {
				respond lost
			}`))
			for range 8 {
				n.Get(t, "/")
			}
			if a := n.Get(t, "/"); a.Status == http.StatusOK {
				t.Errorf("got %v; want it refused", a)
			}
			n.CheckMetric(t, `decisions_total{decision="dry_run_denied",policy="pretended",source="memory"}`, 0)
			n.CheckMetric(t, `decisions_total{decision="dry_run_denied",policy="pretended",source="fallback"}`, 0)
		})
	}
}
