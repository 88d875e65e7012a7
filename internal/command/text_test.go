package command

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/adminapi"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/display"
)

func TestWaitTime(t *testing.T) {
	for seconds, want := range map[float64]string{0: "now", -1: "never", 2: "2 s"} {
		assert.Equal(t, waitTime(seconds), want, "%v seconds", seconds)
		assert.Equal(t, strings.TrimPrefix(inTime(seconds), "in "), want, "%v seconds", seconds)
	}
}

func TestPairs(t *testing.T) {
	value := map[string]any{"units": float64(1_500_000), "begins": "2026-11-21T15:21:00Z"}
	got, want := pairs(value), `begins=2026-11-21T15:21:00Z units=1500000`
	assert.ErrorIf(t, got != want, "got %q; want %q", got, want)
}

// TestPolicyBlock shows policies with all options, such that met nothing, and hostile text, in 80 columns.
func TestPolicyBlock(t *testing.T) {
	seconds := func(d time.Duration) *display.DurationSeconds { return new(display.DurationSeconds(d)) }
	plain := display.Handler{Place: "srv0 (:443) host example.com", Key: "{http.vars.client_ip}"}
	login := display.PolicyDescription{
		Name: "login", Algorithm: "sliding_window_counter", Limit: 5, Window: *seconds(15 * time.Minute),
		Ban: &display.Ban{Durations: []display.DurationSeconds{*seconds(10 * time.Minute), *seconds(time.Hour)}, After: 20}, IPv4Prefix: new(24),
		Handlers: []display.Handler{{Place: "srv0 (:443) host example.com", Match: "path /login", Key: plain.Key, CountIf: "status 401"}},
	}
	queue := display.PolicyDescription{
		Name: "queue", Algorithm: "leaky_bucket", LimitFrom: "{http.vars.plan_limit}", Limit: 60, Window: *seconds(time.Second), Burst: 21, MaxDelay: seconds(2500 * time.Millisecond),
		Lease: seconds(time.Second), Challenge: &display.Challenge{Passes: 10}, Handlers: []display.Handler{plain, {
			Key: "{http.request.header.X-Api-Key}", OnEmptyKey: "reject", Weight: 3, Reserve: "20%", Enforce: new(12.5), DryRun: true, Notify: []float64{80, 100}, Cost: "json usage.total_tokens", CostFallback: 7,
		}},
	}
	running := display.PolicyDescription{Name: "running", MaxConcurrent: 2, NodeTimeout: *seconds(20 * time.Second), Handlers: []display.Handler{plain}}
	odd := display.PolicyDescription{Name: "odd", Limit: 1, Calendar: "month", TimeZone: "Europe/Berlin", Handlers: []display.Handler{{Place: "\x1b[31m" + strings.Repeat("語", 200), Key: "everyone"}}}
	for _, tt := range []struct {
		report adminapi.PolicyReport
		want   string
	}{
		{adminapi.PolicyReport{PolicyDescription: login, SinceStart: adminapi.CountsReport{
			Met: 1214, Denied: 3, Counted: 997, DeniedByOther: 2, FailedOpen: 1, CountIf: &adminapi.CountIfReport{Responses: 214},
		}}, `login: 5 requests per 15 minutes for each /24 (IPv6 /64)
  ban          10 min, 1 h after 20 denials
  ipv4_prefix  24
  count_if     status 401
  handlers     srv0 (:443) host example.com, match path /login
  since start  1,214 requests met, 3 denied, 0 would be denied, 997 counted, 2
               denied by other policies, 1 let through without a decision
!              count_if matched 0 of 214 responses
`},
		{adminapi.PolicyReport{PolicyDescription: queue, SinceStart: adminapi.CountsReport{Met: 1, WouldBeDenied: 1}}, `queue: {http.vars.plan_limit} units per second for each client address, or each
  header X-Api-Key, else 60
  algorithm    leaky_bucket
  burst        21
  max_delay    2.5s
  challenge    10 passes
  lease        up to 1 s
  handlers     srv0 (:443) host example.com
               in no route of Caddy's own, key {http.request.header.X-Api-Key},
               on_empty_key reject, weight 3, cost json usage.total_tokens, else
               7, reserve 20%, enforce 12.5%, notify 80% 100%, dry_run
  since start  1 request met, 0 denied, 1 would be denied, 0 counted
`},
		{adminapi.PolicyReport{PolicyDescription: running, Running: new(int64(1)), ClientOverrides: 3, Override: &adminapi.OverrideEntry{Limit: 70}}, `running: 2 requests at once for each client address
  node_timeout  20s
  running here  1
  overrides     limit 70 for all, 3 clients
  handlers      srv0 (:443) host example.com
! since start   never met
`},
		{adminapi.PolicyReport{PolicyDescription: odd, SinceStart: adminapi.CountsReport{Met: 1}},
			"odd: 1 request per calendar month (Europe/Berlin) for all clients together\n  key          everyone\n  handlers     \\x1b[31m" +
				strings.Repeat("語", 57) + "\n               " + strings.Repeat("語", 65) + "\n               " + strings.Repeat("語", 65) + "\n               " + strings.Repeat("語", 13) +
				"\n  since start  1 request met, 0 denied, 0 would be denied, 0 counted\n"},
	} {
		var text strings.Builder
		policyBlock(&tt.report).Write(display.NewWriter(&text))
		assert.Equal(t, text.String(), tt.want, "the block of %s", tt.report.Name)
		for line := range strings.Lines(text.String()) {
			assert.ErrorIf(t, utf8.RuneCountInString(line) > 81, "%q is wider than 80 columns", line)
		}
	}
}

// TestTables_whole writes tables with long values, and expects whole ones.
func TestTables_whole(t *testing.T) {
	key, until := "2001:db8:1:2::/64", time.Date(2026, time.November, 22, 6, 43, 34, 0, time.UTC)
	quota := adminapi.QuotaReport{Limit: 100_000, Remaining: 99_999, RetryAfter: 736.2, ResetAfter: 1636.2}
	bannedQuota := adminapi.QuotaReport{Limit: 5, RetryAfter: 736.2, ResetAfter: 1636.2, Banned: 736.2}
	for name, tt := range map[string]struct {
		table *display.Table
		whole []string
	}{
		"bans": {banTable([]adminapi.BanEntry{{Policy: "login", Key: key, Banned: 86399, Offenses: 12}}), []string{key, "24 h"}},
		"overrides": {overrideTable([]adminapi.OverrideEntry{
			{Policy: "api", Key: &key, Limit: 100_000, Burst: 5000, Until: &until}, {Policy: "login", All: true, Exempt: true, Until: &until, Note: "a note is read in lines of some words"},
		}), []string{key, "limit 100000, burst 5000", "2026-11-22T06:43:34Z", "a note is read in lines"}},
		"explain": {explainedTable([]adminapi.ExplainedPolicy{
			{Policy: "login", Key: "2001:db8:1:2::/64", Decision: "denied", DryRun: true, Weight: 1, QuotaReport: quota, Source: "deny_cache"},
			{Policy: "api", Key: "日本語の鍵はとても幅が広いので", Decision: "allowed", Weight: 1, QuotaReport: quota, Source: "redis"},
		}), []string{"2001:db8:1:2::/64", "日本語の鍵はとても幅が広いので", "99999/100000"}},
		"explain a ban": {explainedTable([]adminapi.ExplainedPolicy{
			{Policy: "login", Key: "203.0.113.7", Decision: "denied", Reason: "ban", Weight: 1, QuotaReport: bannedQuota, Source: "redis"},
		}), []string{"KEY ", " banned ", "203.0.113.7"}},
		"state": {keyTable([]adminapi.RedisKeyReport{{
			Name: "rl:{2001:db8:1:2::/64}:login:l15m", Type: "list", TTL: 1636.2,
			Value: map[string]any{"entries": 5.0, "first_entry": "2026-11-21T18:32:15.975548Z", "last_entry": "2026-11-21T18:32:16.145716Z"},
		}}), []string{"rl:{2001:db8:1:2::/64}:login:l15m", "last_entry=2026-11-21T18:32:16.145716Z"}},
		"top": {topTable([]adminapi.TopEntry{
			{Policy: strings.Repeat("n", 64), Key: "2001:db8:1:2::/64", Denied: 1_000_000, Error: 17}, {Policy: "api", Key: "203.0.113.7", Denied: 1},
		}), []string{"2001:db8:1:2::/64", strings.Repeat("n", 64)}},
	} {
		t.Run(name, func(t *testing.T) {
			var text strings.Builder
			tt.table.Write(display.NewWriter(&text))
			for _, whole := range tt.whole {
				assert.ErrorIf(t, !strings.Contains(text.String(), whole), "%s is missing in\n%s", whole, &text)
			}
		})
	}
}

func TestStoreLine(t *testing.T) {
	for want, s := range map[string]adminapi.StoreReport{
		"memory of this process: 3 of at most 1,000 keys": {Kind: "memory", MemoryKeys: 3, MaxKeys: 1000},
		"redis standalone 127.0.0.1:1 database 3: decides in 2 ms; breaker closed": {
			Kind: "redis", Mode: "standalone", Addresses: []string{"127.0.0.1:1"}, Database: 3, Healthy: true, RoundTrip: 0.002, Breaker: "closed"},
		"redis cluster a:1, b:2: does not decide (refused); handlers do local; breaker open, next probe in 1.5 s": {
			Kind: "redis", Mode: "cluster", Addresses: []string{"a:1", "b:2"}, Error: "refused", FailMode: "local", Breaker: "open", NextProbe: 1.5},
	} {
		assert.Equal(t, storeLine(&s), want, "the line")
	}
}

func TestResetText(t *testing.T) {
	for want, test := range map[string]struct {
		report     adminapi.ResetReport
		everywhere bool
	}{
		"1 quota reset":                                                  {adminapi.ResetReport{Deleted: 1}, true},
		"19 quotas reset on this node alone":                             {adminapi.ResetReport{DeletedHere: 19}, false},
		"0 quotas reset on this node alone":                              {adminapi.ResetReport{}, false},
		"2 quotas reset in a part of Redis; the rest could not be asked": {adminapi.ResetReport{Deleted: 2, DeletedHere: 19}, false},
	} {
		got := resetText(test.report, test.everywhere)
		assert.ErrorIf(t, got != want, "got %q, want %q", got, want)
	}
}
