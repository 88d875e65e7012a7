package deploy

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
)

// alertCases are series in promqltest's form, one value every 30 seconds, and the alerts that fire after
// a time.
var alertCases = []struct {
	name   string
	series []string
	after  time.Duration
	want   []string
}{
	{"nothing is wrong", []string{
		`breaker_open{instance="a"} 0x40`,
		`decisions_total{policy="api",decision="allowed",source="redis",instance="a"} 0+3000x40`,
		`decisions_total{policy="api",decision="denied",source="deny_cache",instance="a"} 0+300x40`,
		`store_duration_seconds_bucket{store="redis",le="0.001",instance="a"} 0+3000x40`,
		`store_duration_seconds_bucket{store="redis",le="+Inf",instance="a"} 0+3000x40`,
		`store_errors_total{kind="timeout",instance="a"} 0x40`,
		`memory_overflows_total{instance="a"} 0x40`,
		`held_requests{instance="a"} 100x40`,
	}, 20 * time.Minute, nil},

	{"the breaker stays open", []string{`breaker_open{instance="a"} 0x4 1x16`, `breaker_open{instance="b"} 0x20`}, 10 * time.Minute, []string{"BreakerOpen a"}},
	{"the breaker opens again and again", []string{`breaker_open{instance="a"} 1 1 0 1 1 1 0 1 1 0 1 1 1 0 1 1 0 1 1 1`}, 8 * time.Minute, []string{"BreakerOpen a"}},
	{"the breaker was open for a minute", []string{`breaker_open{instance="a"} 0x4 1x2 0x16`}, 4 * time.Minute, nil},

	{"one request in fifty times out", []string{
		`batch_size_sum{instance="a"} 0+3000x40`,
		`store_errors_total{kind="timeout",instance="a"} 0+60x40`,
	}, 12 * time.Minute, []string{"StoreErrors a"}},
	{"one request in fifty times out, and each meets four policies", []string{
		`batch_size_sum{instance="a"} 0+3000x40`,
		`decisions_total{policy="a",decision="allowed",source="redis",instance="a"} 0+3000x40`,
		`decisions_total{policy="b",decision="allowed",source="redis",instance="a"} 0+3000x40`,
		`decisions_total{policy="c",decision="allowed",source="redis",instance="a"} 0+3000x40`,
		`decisions_total{policy="d",decision="allowed",source="redis",instance="a"} 0+3000x40`,
		`store_errors_total{kind="timeout",instance="a"} 0+60x40`,
	}, 12 * time.Minute, []string{"StoreErrors a"}},
	{"one request in a thousand times out", []string{
		`batch_size_sum{instance="a"} 0+3000x40`,
		`store_errors_total{kind="timeout",instance="a"} 0+3x40`,
	}, 12 * time.Minute, nil},
	{"errors of a moment are over", []string{
		`batch_size_sum{instance="a"} 0+3000x40`,
		`store_errors_total{kind="timeout",instance="a"} 0x10 900x30`,
	}, 9 * time.Minute, nil},
	{"requests kept back by the breaker are no new errors", []string{
		`batch_size_sum{instance="a"} 0+30x40`,
		`store_errors_total{kind="refused",instance="a"} 0+30x40`,
		`store_errors_total{kind="breaker",instance="a"} 0+6000x40`,
	}, 12 * time.Minute, nil},

	{"refunds fail", []string{
		`refund_errors_total{kind="timeout",instance="a"} 0+2x60`,
		`refund_errors_total{kind="connection",instance="a"} 0+2x60`,
		`refund_errors_total{kind="timeout",instance="b"} 0+1x60`,
	}, 16 * time.Minute, []string{"RefundErrors a"}},
	{"refunds failed for a moment", []string{`refund_errors_total{kind="timeout",instance="a"} 0x4 300x56`}, 16 * time.Minute, nil},

	{"Redis takes 100 ms", []string{
		`store_duration_seconds_bucket{store="redis",le="0.05",instance="a"} 0x40`,
		`store_duration_seconds_bucket{store="redis",le="0.1",instance="a"} 0+300x40`,
		`store_duration_seconds_bucket{store="redis",le="+Inf",instance="a"} 0+300x40`,
	}, 16 * time.Minute, []string{"StoreSlow a"}},

	{"the fallback decides", []string{`decisions_total{policy="api",decision="allowed",source="fallback",instance="a"} 0x4 0+300x16`}, 10 * time.Minute, []string{"FallbackActive a api"}},
	{"the fallback decided for a moment", []string{`decisions_total{policy="api",decision="allowed",source="fallback",instance="a"} 0x4 300x16`}, 5 * time.Minute, nil},
	{"requests fail open", []string{`decisions_total{policy="api",decision="failed_open",source="redis",instance="a"} 0+30x20`}, 6 * time.Minute, []string{"FailedOpen api"}},
	{"requests fail closed", []string{`decisions_total{policy="api",decision="failed_closed",source="redis",instance="a"} 0+30x20`}, 6 * time.Minute, []string{"FailedClosed api"}},
	{"a request failed closed", []string{`decisions_total{policy="api",decision="failed_closed",source="redis",instance="a"} 0x4 1x16`}, 4 * time.Minute, nil},

	// 360 values are three hours.
	{"a policy denies half instead of a tenth", []string{
		`decisions_total{policy="api",decision="allowed",source="redis",instance="a"} 0+900x360 324450+450x60`,
		`decisions_total{policy="api",decision="denied",source="redis",instance="a"} 0+100x360 36450+450x60`,
		`decisions_total{policy="login",decision="allowed",source="redis",instance="a"} 0+900x420`,
		`decisions_total{policy="login",decision="denied",source="redis",instance="a"} 0+100x420`,
	}, 200 * time.Minute, []string{"PolicyDeniesMore api"}},
	{"a policy never denied before", []string{
		`decisions_total{policy="api",decision="allowed",source="redis",instance="a"} 0+900x420`,
		`decisions_total{policy="api",decision="denied",source="deny_cache",instance="a"} _x360 0+900x60`,
	}, 200 * time.Minute, []string{"PolicyDeniesMore api"}},
	{"a policy always denies half", []string{
		`decisions_total{policy="api",decision="allowed",source="redis",instance="a"} 0+900x420`,
		`decisions_total{policy="api",decision="denied",source="redis",instance="a"} 0+900x420`,
	}, 200 * time.Minute, nil},
	{"a policy with little traffic denies more", []string{
		`decisions_total{policy="api",decision="allowed",source="redis",instance="a"} 0+9x420`,
		`decisions_total{policy="api",decision="denied",source="redis",instance="a"} 0x360 0+9x60`,
	}, 200 * time.Minute, nil},
	{"a policy in dry run would deny", []string{
		`decisions_total{policy="api",decision="dry_run_allowed",source="redis",instance="a"} 0+900x420`,
		`decisions_total{policy="api",decision="dry_run_denied",source="redis",instance="a"} 0x360 0+900x60`,
	}, 200 * time.Minute, nil},

	{"a policy bans one client a second instead of one in five minutes", []string{
		`bans_total{policy="login",instance="a"} 0+0.1x360 36+15x60`,
		`bans_total{policy="login",instance="b"} 0+0.1x360 36+15x60`,
		`bans_total{policy="api",instance="a"} 0+2x420`,
	}, 200 * time.Minute, []string{"PolicyBansMore login"}},
	{"a policy never banned before", []string{`bans_total{policy="login",instance="a"} 0x360 0+15x60`}, 200 * time.Minute, []string{"PolicyBansMore login"}},
	{"a policy always bans one client a second", []string{`bans_total{policy="login",instance="a"} 0+30x420`}, 200 * time.Minute, nil},
	{"a policy bans one client a minute instead of none", []string{`bans_total{policy="login",instance="a"} 0x360 0+0.5x60`}, 200 * time.Minute, nil},
	{"a policy banned many clients for a moment", []string{`bans_total{policy="login",instance="a"} 0x360 0 60 90x58`}, 190 * time.Minute, nil},

	{"the in-process store is full", []string{`memory_overflows_total{instance="a"} 0+10x40`}, 15 * time.Minute, []string{"MemoryFull a"}},
	{"the in-process store was full for a moment", []string{`memory_overflows_total{instance="a"} 0x4 10x36`}, 15 * time.Minute, nil},
	{"a limit cannot be used", []string{`invalid_values_total{policy="plan",option="limit",instance="a"} 0+30x60`}, 25 * time.Minute, []string{"ValuesUnusable plan limit"}},
	{"few limits cannot be used", []string{`invalid_values_total{policy="plan",option="limit",instance="a"} 0+1x60`}, 25 * time.Minute, nil},
	{"a user may not read overrides", []string{`overrides_stale{instance="a"} 1x20`, `overrides_stale{instance="b"} 0x20`, `breaker_open{instance="a"} 0x20`}, 8 * time.Minute, []string{"OverridesStale a"}},
	{"overrides were not read for a moment", []string{`overrides_stale{instance="a"} 0x4 1x2 0x14`}, 8 * time.Minute, nil},
	{"overrides are not read in an outage", []string{`overrides_stale{instance="a"} 1x20`, `breaker_open{instance="a"} 1x20`}, 8 * time.Minute, []string{"BreakerOpen a"}},
	{"too many requests are held", []string{`held_requests{instance="a"} 60000x20`, `held_requests{instance="b"} 900x20`}, 8 * time.Minute, []string{"HoldsTooMany a"}},
}

func TestAlerts_firing(t *testing.T) {
	fired := map[string]bool{}
	for _, c := range alertCases {
		t.Run(c.name, func(t *testing.T) {
			got := firing(t, c.series, c.after)
			for _, alert := range got {
				name, _, _ := strings.Cut(alert, " ")
				fired[name] = true
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%q fire, want %q", got, c.want)
			}
		})
	}
	for _, alert := range loadRules(t).alerts {
		if !fired[strings.TrimPrefix(alert.Alert, alertPrefix)] {
			t.Errorf("no case makes %s fire", alert.Alert)
		}
	}
}

const alertPrefix = "RedisRateLimit"

// firing evaluates all rules every minute for the given time. It returns the names of the alerts that
// fire at the end, with their instance, policy and option.
func firing(t *testing.T, series []string, after time.Duration) []string {
	t.Helper()
	load := "load 30s\n"
	for _, s := range series {
		load += "\tcaddy_redis_ratelimit_" + strings.Replace(s, "{", `{job="caddy",`, 1) + "\n"
	}
	groups := ruleGroups(t, load)
	for at := time.Duration(0); at <= after; at += time.Minute {
		for _, group := range groups {
			group.Eval(t.Context(), time.Unix(0, 0).Add(at))
		}
	}
	return active(t, groups)
}

// ruleGroups returns the groups of the rules' file on the series of a promqltest load. A group follows
// those whose records it reads.
func ruleGroups(t *testing.T, load string) []*rules.Group {
	t.Helper()
	storage := promqltest.LoadedStorage(t, load)
	t.Cleanup(func() { _ = storage.Close() }) // the test removes its folder
	engine := promqltest.NewTestEngine(t, false, 5*time.Minute, 1e6)
	manager := rules.NewManager(&rules.ManagerOptions{
		QueryFunc: rules.EngineQueryFunc(engine, storage), Queryable: storage, Appendable: storage,
		NotifyFunc:  func(context.Context, string, ...*rules.Alert) {},
		ExternalURL: new(url.URL), Context: t.Context(), Logger: slog.New(slog.DiscardHandler),
	})
	groups, errs := manager.LoadGroups(time.Minute, labels.EmptyLabels(), "", nil, false, rulesFile)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	ordered := make([]*rules.Group, 0, len(groups)) // fractions first: the alerts read them
	for _, name := range []string{"caddy-redis-ratelimit-fractions", "caddy-redis-ratelimit"} {
		group := groups[rules.GroupKey(rulesFile, name)]
		if group == nil {
			t.Fatalf("there is no group %s", name)
		}
		ordered = append(ordered, group)
	}
	return ordered
}

// active lists the alerts that fire and checks that their texts are complete.
func active(t *testing.T, groups []*rules.Group) (found []string) {
	t.Helper()
	for _, group := range groups {
		for _, rule := range group.Rules() {
			if err := rule.LastError(); err != nil {
				t.Errorf("%s: %v", rule.Name(), err)
			}
		}
		for _, rule := range group.AlertingRules() {
			for _, alert := range rule.ActiveAlerts() {
				if alert.State != rules.StateFiring {
					continue
				}
				name := strings.TrimPrefix(rule.Name(), alertPrefix)
				for _, label := range []string{"instance", "policy", "option"} {
					if value := alert.Labels.Get(label); value != "" {
						name += " " + value
					}
				}
				found = append(found, name)
				if text := fmt.Sprint(alert.Annotations); strings.Contains(text, "<no value>") || strings.Contains(text, "error expanding") {
					t.Errorf("%s says %s", name, text)
				}
			}
		}
	}
	return found
}
