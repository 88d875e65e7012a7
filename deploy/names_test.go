// Package deploy tests the dashboard and the rules against the metrics that a real Caddy exports.
package deploy

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// begin and scrapeEvery are the timestamps of the samples. They do not pass in real time.
var begin = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

const scrapeEvery = 15 * time.Second

// recording holds the metrics of a Caddy, read several times.
type recording struct {
	samples

	scene *scene
	end   time.Time // of the next scrape
}

// record runs a real Caddy through everything that metrics count, and stores them.
func record(t *testing.T) *recording {
	t.Helper()
	r := &recording{samples: newSamples(t), scene: startScene(t), end: begin}
	r.scene.Await(t, "/payments", 200, caddytest.Any) // by Redis
	for range 2 {
		r.traffic(t)
		r.waits(t)
		r.waitForSeries(t, `leased_units_total{outcome="spent",policy="hot"}`)
		r.scrape(t)
	}
	r.scene.killRedisDuring(t, "/jobs", "other")
	r.scene.Await(t, "/payments", 503, caddytest.Any)
	for range 2 {
		r.traffic(t)
		for i := range 1100 { // more than max_keys
			r.get(t, "/api", fmt.Sprint("crowd-", i))
		}
		r.scrape(t)
	}
	r.scene.redis.Run(t)
	r.scene.Await(t, "/payments", 200, caddytest.Any)
	r.waitForSeries(t, `settled_units_total{direction="outage"`) // charged on Redis
	for range 2 {
		r.scrape(t)
	}
	return r
}

// traffic sends requests to every policy, within its limit and beyond.
func (r *recording) traffic(t *testing.T) {
	t.Helper()
	for _, path := range []string{"/api", "/login", "/payments", "/assets", "/reports", "/trial", "/guess", "/uploads", "/hot"} {
		for range 60 {
			r.get(t, path, "flood")
		}
		r.get(t, path, "other")
	}
	for range 2 {
		r.get(t, "/pages", "reader", "Accept: text/html")
	}
	r.get(t, "/plan", "customer", "X-Limit: many")
	r.get(t, "/tokens", "customer", "X-Cost: 4")
	r.get(t, "/tokens", "customer", "X-Cost: 25")
}

// waits has requests wait for a place, and get one or none.
func (r *recording) waits(t *testing.T) {
	t.Helper()
	const client = "X-Client: waiting"
	begin := func(path string) { r.scene.upstream.Begin(t, r.scene.Node, path, client) }
	begin("/thumbnails")
	r.scene.Get(t, "/thumbnails", client).Want(t, http.StatusTooManyRequests, caddytest.Any) // timeout
	r.scene.upstream.EndOne()
	r.scene.upstream.WaitRunning(t, 0)
	begin("/models?user=a")
	for i := range 2 {
		r.scene.Hold(t, "/models?user=a", client)
		r.scene.CheckMetric(t, `waiting{policy="models"}`, float64(i+1))
	}
	pushedOut := r.scene.Metric(t, `wait_seconds_count{outcome="pushed_out"}`)
	r.scene.Hold(t, "/models?user=b", client)
	r.scene.CheckMetric(t, `wait_seconds_count{outcome="pushed_out"}`, pushedOut+1)
	r.scene.Get(t, "/models?user=a", client).Want(t, http.StatusTooManyRequests, caddytest.Any) // full
	for range 3 {
		r.scene.upstream.EndOne()
	}
	r.scene.CheckMetric(t, `running{policy="models"}`, 0)
}

func (r *recording) get(t *testing.T, path, client string, headers ...string) {
	t.Helper()
	r.scene.Get(t, path, append(headers, "X-Client: "+client)...)
}

// waitForSeries waits until the metrics have a series that begins so.
func (r *recording) waitForSeries(t *testing.T, series string) {
	t.Helper()
	assert.Retry(t, "there is "+series, func() (again bool, seen any) {
		text := r.metrics(t)
		return !strings.Contains(text, "caddy_redis_ratelimit_"+series), text
	})
}

func (r *recording) metrics(t *testing.T) string {
	t.Helper()
	return r.scene.Send(t, http.MethodGet, r.scene.Admin+"/metrics", "").Want(t, http.StatusOK, caddytest.Any).Body
}

// scrape reads the metrics, with a timestamp scrapeEvery after the last.
func (r *recording) scrape(t *testing.T) {
	t.Helper()
	r.add(t, r.metrics(t), r.end)
	r.end = r.end.Add(scrapeEvery)
}

// exported maps each metric to its labels and their values.
type exported map[string]map[string]map[string]bool

// exported returns this module's metrics of the whole recording.
func (r *recording) exported(t *testing.T) exported {
	t.Helper()
	e := exported{}
	for _, series := range r.values(t, `{__name__=~"caddy_redis_ratelimit_.+"}`, begin, r.end, scrapeEvery) {
		names := series.Metric.Map()
		name := names["__name__"]
		if e[name] == nil {
			e[name] = map[string]map[string]bool{}
		}
		for label, value := range names {
			if e[name][label] == nil {
				e[name][label] = map[string]bool{}
			}
			e[name][label][value] = true
		}
	}
	return e
}

func TestDashboard_and_rules_metrics(t *testing.T) {
	r := record(t)
	known := r.exported(t)
	d := loadDashboard(t)
	for _, v := range d.Templating.List {
		if v.Type == "query" {
			t.Run("variable "+v.Name, func(t *testing.T) { checkVariable(t, known, v) })
		}
	}
	for _, panel := range d.Panels {
		for _, target := range panel.Targets {
			t.Run(panel.Title, func(t *testing.T) {
				expr := d.expand(target.Expr, "1m")
				if strings.Contains(expr, "$") {
					t.Fatalf("%s: a variable is left", expr)
				}
				if err := errors.Join(known.check(expr, nil)...); err != nil {
					t.Fatalf("%s: %v", expr, err)
				}
				r.checkShows(t, expr, target.LegendFormat)
			})
		}
	}
	for name, expr := range loadRules(t).exprs {
		t.Run(name, func(t *testing.T) {
			if err := errors.Join(known.check(expr, loadRules(t).records)...); err != nil {
				t.Fatalf("%s: %v", expr, err)
			}
		})
	}
}

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
	d := new(dashboard)
	assert.Must(t, json.Unmarshal(assert.NoError(os.ReadFile(dashboardFile))(t), d))
	return d
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
