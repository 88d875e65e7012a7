package command

import (
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/adminapi"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/terminal"
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

// TestTables_whole writes tables with long values, and expects whole ones.
func TestTables_whole(t *testing.T) {
	delay, key, until := 2.5, "2001:db8:1:2::/64", time.Date(2026, time.November, 22, 6, 43, 34, 0, time.UTC)
	quota := adminapi.QuotaReport{Limit: 100_000, Remaining: 99_999, RetryAfter: 736.2, ResetAfter: 1636.2}
	bannedQuota := adminapi.QuotaReport{Limit: 5, RetryAfter: 736.2, ResetAfter: 1636.2, Banned: 736.2}
	for name, tt := range map[string]struct {
		table *terminal.Table
		whole []string
	}{
		"policies": {policyTable([]adminapi.PolicyReport{
			{Name: "api", Algorithm: "sliding_window_counter", Limit: 60, LimitFrom: "{http.vars.plan_limit}", Window: 60, IPv4Prefix: 24, IPv6Prefix: 56},
			{Name: "reports", Algorithm: "leaky_bucket", Limit: 10, Window: 1, Burst: 21, MaxDelay: &delay, IPv4Prefix: 32, IPv6Prefix: 64},
			{Name: "login", Algorithm: "sliding_window_counter", Limit: 5, Window: 900, Ban: &adminapi.BanReport{Durations: []float64{600, 3600, 86400}, After: 20}},
			{Name: strings.Repeat("n", 64), Algorithm: "sliding_window_log", Limit: 1, Window: 900, IPv4Prefix: 32, IPv6Prefix: 64},
		}), []string{"{http.vars.plan_limit} or 60", "10 min, 1 h, 24 h after 20", strings.Repeat("n", 64)}},
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
			tt.table.Write(terminal.New(&text))
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
		assert.Equal(t, storeLine(s), want, "the line")
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
