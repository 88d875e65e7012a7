// Package deploy tests the dashboard and the rules against the metrics that a real Caddy exports.
package deploy

import (
	"encoding/json"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

const (
	dashboardFile = "grafana/redis-ratelimit.json"
	rulesFile     = "prometheus/rules.yml"
)

// dashboard is the part of Grafana's classic model that yields the queries to Prometheus.
type dashboard struct {
	Title         string
	SchemaVersion int
	Panels        []struct {
		Title, Type, Description string
		Targets                  []struct{ Expr, LegendFormat string }
		FieldConfig              struct{ Defaults struct{ Unit string } }
	}
	Templating struct{ List []variable }
}

// variable is chosen by the user. Definition is its query, empty for the data source.
type variable struct{ Name, Type, Definition, AllValue string }

// expand replaces the variables of an expression as Grafana does where all their values are chosen.
// rateInterval is the range of rates, such as "1m".
func (d *dashboard) expand(expr, rateInterval string) string {
	pairs := []string{"$__rate_interval", rateInterval}
	for _, v := range d.Templating.List {
		if v.Type == "query" {
			pairs = append(pairs, "$"+v.Name, v.AllValue)
		}
	}
	return strings.NewReplacer(pairs...).Replace(expr)
}

func loadDashboard(t *testing.T) *dashboard {
	t.Helper()
	text, err := os.ReadFile(dashboardFile)
	d := new(dashboard)
	if err == nil {
		err = json.Unmarshal(text, d)
	}
	must(t, err)
	return d
}

// must ends a test with an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// ruleSet holds the expressions and names of the rules.
type ruleSet struct {
	exprs   map[string]string // by the name of the rule
	records []string
	alerts  []rulefmt.Rule
}

func loadRules(t *testing.T) ruleSet {
	t.Helper()
	groups, errs := rulefmt.ParseFile(rulesFile, false, model.LegacyValidation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	set := ruleSet{exprs: map[string]string{}}
	for _, group := range groups.Groups {
		for _, rule := range group.Rules {
			set.exprs[rule.Record+rule.Alert] = rule.Expr
			if rule.Record != "" {
				set.records = append(set.records, rule.Record)
			} else {
				set.alerts = append(set.alerts, rule)
			}
		}
	}
	return set
}

func TestDashboard_schema(t *testing.T) {
	d := loadDashboard(t)
	if d.SchemaVersion != 39 || d.Title == "" {
		t.Errorf("schema version %d, title %q", d.SchemaVersion, d.Title)
	}
	for _, p := range d.Panels {
		if p.Type != "row" && (p.Description == "" || len(p.Targets) == 0 || p.FieldConfig.Defaults.Unit == "") {
			t.Errorf("panel %q has no description, no query or no unit", p.Title)
		}
	}
	if v := d.Templating.List; len(v) == 0 || v[0].Type != "datasource" {
		t.Errorf("variables %v, want the data source first", v)
	}
}

func TestAlerts_labels_and_annotations(t *testing.T) {
	for _, alert := range loadRules(t).alerts {
		if s := alert.Labels["severity"]; s != "warning" && s != "critical" {
			t.Errorf("%s: severity %q", alert.Alert, s)
		}
		for _, name := range []string{"summary", "description", "runbook"} {
			if alert.Annotations[name] == "" {
				t.Errorf("%s has no %s", alert.Alert, name)
			}
		}
	}
}
