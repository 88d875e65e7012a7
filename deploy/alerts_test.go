package deploy

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// alertCase is series, and the alerts that fire after a time.
type alertCase struct {
	name   string
	series []string
	after  time.Duration
	want   []string
}

// alertCases reads testdata/alerts.txt.
func alertCases(t *testing.T) (cases []alertCase) {
	t.Helper()
	text := assert.NoError(os.ReadFile("testdata/alerts.txt"))(t)
	var c alertCase
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		after, alerts, last := strings.Cut(strings.TrimPrefix(line, "after "), ": ")
		switch name, isName := strings.CutSuffix(line, ":"); {
		case line == "" || strings.HasPrefix(line, "# "):
		case strings.HasPrefix(line, "\t"):
			c.series = append(c.series, line[1:])
		case isName:
			c.name = name
		case last:
			c.after = assert.NoError(time.ParseDuration(after))(t)
			if alerts != "no alert" {
				c.want = strings.Split(alerts, ", ")
			}
			cases, c = append(cases, c), alertCase{}
		default:
			t.Fatalf("testdata/alerts.txt: %q is no line of a case", line)
		}
	}
	return cases
}

func TestAlerts_firing(t *testing.T) {
	fired := map[string]bool{}
	for _, c := range alertCases(t) {
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

var (
	runbookCommand = regexp.MustCompile(`"caddy redis-ratelimit ([^"]+)"`)
	commandFlag    = regexp.MustCompile(`--[a-z-]+`)
)

func TestRunbooks_commands(t *testing.T) {
	helpOf := map[string]string{} // the help of each command
	for _, alert := range loadRules(t).alerts {
		for _, found := range runbookCommand.FindAllStringSubmatch(alert.Annotations["runbook"], -1) {
			name, _, _ := strings.Cut(found[1], " ")
			if helpOf[name] == "" {
				helpOf[name] = help(t, name)
			}
			for _, flag := range commandFlag.FindAllString(found[1], -1) {
				if !strings.Contains(helpOf[name], flag) {
					t.Errorf("%s: %s has no flag %s", alert.Alert, name, flag)
				}
			}
		}
	}
	if len(helpOf) == 0 {
		t.Error("no runbook names a command")
	}
}

// help returns the help of a command. For an unknown one Caddy prints another text.
func help(t *testing.T, name string) string {
	t.Helper()
	e := caddytest.RunRatelimit(t, nil, name, "--help")
	e.Want(t, 0, "Usage:\n  caddy redis-ratelimit "+name)
	return e.Stdout
}
