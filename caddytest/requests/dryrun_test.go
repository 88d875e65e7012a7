package requests

import (
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// showDryRun ends a site: the body names the dry-run policies that would have denied.
const showDryRun = "\nrespond \"ok {http.redis_ratelimit.decision} {http.redis_ratelimit.dry_run}\"\n"

// refusingDryRuns are handlers whose policy p would refuse every request without a decision, if it were enforced.
var refusingDryRuns = map[string]string{
	"empty key":         "redis_ratelimit {\non_empty_key reject\npolicy p {\nkey {header.X-Key}\nlimit 9\nwindow 24h\ndry_run\n}\n}",
	"matcher":           "redis_ratelimit {\npolicy p {\nlimit 9\nwindow 24h\ndry_run\nmatch `int({query.n}) > 1`\n}\n}",
	"handler":           "redis_ratelimit {\non_empty_key reject\ndry_run\nname p\nkey {header.X-Key}\nlimit 9\nwindow 24h\n}",
	"beside one":        "redis_ratelimit {\non_empty_key reject\npolicy p {\nkey {header.X-Key}\nlimit 9\nwindow 24h\ndry_run\n}\npolicy other {\nkey same\nlimit 9\nwindow 24h\ndry_run\n}\n}",
	"with count and so": "redis_ratelimit {\non_empty_key reject\npolicy p {\nkey {header.X-Key}\nlimit 9\nwindow 24h\ndry_run\ncount_if status 401\ncost response_bytes\n}\n}",
}

func TestDryRun_handlers(t *testing.T) {
	n := caddytest.InProcess(t, "respond old")
	for name, limit := range refusingDryRuns {
		t.Run(name, func(t *testing.T) {
			policy := "p_" + strings.ReplaceAll(name, " ", "_")
			limit = strings.NewReplacer("policy p ", "policy "+policy+" ", "name p\n", "name "+policy+"\n").Replace(limit)
			n.Reload(t, caddytest.WithPorts(n, caddytest.Config("", limit+showDryRun)))
			said := len(n.Log.Lines(func(l caddytest.LogLine) bool { return l.Message == "request would be denied" }))
			for _, client := range []string{"one", "two"} {
				n.Get(t, "/?n="+client).Want(t, http.StatusOK, "ok allowed "+policy, caddytest.NoQuota)
			}
			n.CheckMetric(t, `decisions_total{decision="dry_run_denied",policy="`+policy+`",source="memory"}`, 2)
			lines := n.Log.Lines(func(l caddytest.LogLine) bool { return l.Message == "request would be denied" })[said:]
			assert.ErrorIf(t, len(lines) != 2 || lines[0].Level != "debug" || !strings.Contains(lines[0].Text, `"policy":"`+policy+`"`), "the log has %v", lines)
			e := n.Explain(t, "/?n=none", "")
			at := slices.IndexFunc(e.Policies, func(p caddytest.ExplainedPolicy) bool { return p.Policy == policy })
			assert.ErrorIf(t, e.Decision != "allowed" || at < 0 || e.Policies[at].Decision != "rejected" || !e.Policies[at].DryRun, "explained as %+v", e)
		})
	}
}

// TestDryRun_redisDown has only policies in dry run, and no Redis. The second request would be held for a day.
func TestDryRun_redisDown(t *testing.T) {
	n := caddytest.WithoutRedis(t, "fail_mode closed", `redis_ratelimit {
		policy plain { key same; limit 1; window 24h; dry_run }
		policy queue { key same; limit 1; window 24h; algorithm leaky_bucket; burst 2; max_delay 30h; dry_run }
	}`+showDryRun)
	for _, want := range []string{"ok allowed ", "ok allowed plain", "ok allowed plain,queue"} {
		n.Get(t, "/").Want(t, http.StatusOK, want, caddytest.NoQuota)
	}
}

// TestDryRun_countIf has a refused request beside a dry run with count_if.
func TestDryRun_countIf(t *testing.T) {
	t.Parallel()
	away := "redis_ratelimit {\nredis redis://" + redistest.FreeAddr(t) + "\n}"
	const lost = "handle_errors 404 { respond lost }"
	for name, test := range map[string]struct{ global, more, errors string }{
		"denied":          {"", "", lost},
		"denied, bare":    {"", "", ""},
		"denied, written": {"", "", "handle_errors { respond refused }"},
		"closed":          {away, "fail_mode closed", lost},
		"closed, written": {away, "fail_mode closed\nanswer problem", lost},
	} {
		t.Run(name, func(t *testing.T) {
			n := caddytest.Start(t, caddytest.Config(test.global, `redis_ratelimit {
				policy enforced { key same; limit 1; window 24h }
				policy pretended { key same; limit 5; window 24h; count_if status 401; dry_run }
				`+test.more+`
			}
			respond ok
			`+test.errors))
			n.GetTimes(t, 8, "/")
			n.Get(t, "/").Want(t, map[bool]int{true: 429, false: 503}[test.global == ""], caddytest.Any)
			if test.global == "" {
				n.CheckMetric(t, `decisions_total{decision="dry_run_allowed",policy="pretended",source="memory"}`, 9)
			}
			n.CheckMetric(t, `decisions_total{decision="dry_run_denied",policy="pretended",source="memory"}`, 0)
			n.CheckMetric(t, `decisions_total{decision="dry_run_denied",policy="pretended",source="fallback"}`, 0)
		})
	}
}

// rolloutSite limits a part of the keys to one request a day.
func rolloutSite(percent string) string {
	return "redis_ratelimit {\nname rollout\nkey {query.k}\nlimit 1\nwindow 24h\nenforce " + percent + "\n}" + showDryRun
}

// rolloutKeys are keys of clients.
func rolloutKeys() (keys []string) {
	for i := range 60 {
		keys = append(keys, fmt.Sprint("client", i))
	}
	return keys
}

// limitedKeys returns the keys that are denied, each of which has used up its quota. The others have no
// header and are named as a dry run.
func limitedKeys(t *testing.T, n *caddytest.Node) (limited []string) {
	t.Helper()
	for _, key := range rolloutKeys() {
		if a := n.Get(t, "/?k="+key); a.Status == http.StatusTooManyRequests {
			limited = append(limited, key)
			caddytest.CheckQuota(t, a, 1, 0)
		} else {
			a.Want(t, http.StatusOK, "ok allowed rollout", caddytest.NoQuota)
		}
	}
	return limited
}

// TestEnforce_stores expects the same keys to be limited in a process, on a Redis, with hashed keys and on a Cluster, by
// a percentage and by a larger one after a reload.
func TestEnforce_stores(t *testing.T) {
	t.Parallel()
	shared := caddytest.SharedRedis(t)
	var first [2][]string
	for i, option := range []string{"", shared, strings.Replace(shared, "timeout", "hash_keys secret\ntimeout", 1), caddytest.OnCluster(t)} {
		n := caddytest.Start(t, caddytest.Quietly(caddytest.Config(option, rolloutSite("25%"))))
		for _, key := range rolloutKeys() {
			n.Get(t, "/?k="+key)
		}
		limited := [2][]string{limitedKeys(t, n)}
		n.Reload(t, caddytest.WithPorts(n, caddytest.Quietly(caddytest.Config(option, rolloutSite("75%")))))
		limited[1] = limitedKeys(t, n)
		if i == 0 {
			first = limited
		}
		assert.ErrorIf(t, !reflect.DeepEqual(limited, first) || len(limited[0]) == 0 || len(limited[0]) >= len(limited[1]), "%s: limits %v, elsewhere %v", option, limited, first)
	}
}

// TestEnforce_operators asks the admin API about a key that is limited and one that is not.
func TestEnforce_operators(t *testing.T) {
	caddytest.OnEachStore(t, rolloutSite("50%"), func(t *testing.T, n *caddytest.Node, source string) {
		var limited, pretended string
		for _, key := range rolloutKeys() {
			n.Get(t, "/?k="+key)
			if a := n.Get(t, "/?k="+key); a.Status == http.StatusOK {
				pretended = key
			} else {
				limited = key
			}
		}
		for key, dry := range map[string]bool{limited: false, pretended: true} {
			e := n.Explain(t, "/?k="+key, "")
			want := map[bool]string{false: "denied", true: "allowed"}[dry]
			assert.ErrorIf(t, len(e.Policies) != 1 || e.Policies[0].DryRun != dry || e.Policies[0].Decision != "denied" || e.Decision != want, "%s: explained as %+v", key, e)
			assert.ErrorIf(t, (stateOf(t, n, "rollout", key)["dry_run"] == true) != dry, "%s: the state has another dry_run", key)
			n.Ask(t, http.MethodPost, "override", `{"policy":"rollout","key":"`+key+`","block":true}`)
		}
		n.Ratelimit(t, "state", "--policy", "rollout", "--key", pretended).Want(t, 0, "no handler limits this key")
		n.Ratelimit(t, "policies").Want(t, 0, "  enforce      50%\n")
		n.Get(t, "/?k="+limited).Want(t, http.StatusTooManyRequests, caddytest.Any)
		n.Get(t, "/?k="+pretended).Want(t, http.StatusOK, "ok allowed rollout")
		got := n.Metric(t, `decisions_total{decision="dry_run_denied",policy="rollout",source="`+source+`"}`)
		assert.ErrorIf(t, got < 15 || got > 45, "%v requests would have been denied, want about 30", got)
	})
}

// TestEnforce_countIf refunds units of keys that are limited and of those that are not.
func TestEnforce_countIf(t *testing.T) {
	caddytest.OnEachStore(t, "redis_ratelimit {\nname rollout\nkey {query.k}\nlimit 2\nwindow 24h\nenforce 50%\ncount_if status 401\n}"+showDryRun, func(t *testing.T, n *caddytest.Node, _ string) {
		for _, key := range rolloutKeys()[:10] {
			for range 3 {
				n.Get(t, "/?k="+key).Want(t, http.StatusOK, "ok allowed ")
				n.WaitForRefund(t, "rollout", key, 2)
			}
		}
	})
}
