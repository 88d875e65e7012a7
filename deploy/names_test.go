package deploy

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
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
	r.waitFor(t, "/payments", 200) // by Redis
	for range 2 {
		r.traffic(t)
		r.waitForSeries(t, `leased_units_total{outcome="spent",policy="hot"}`)
		r.scrape(t)
	}
	r.scene.killRedisDuring(t, "/jobs", "other")
	r.waitFor(t, "/payments", 503)
	for range 2 {
		r.traffic(t)
		for i := range 1100 { // more than max_keys
			r.get(t, "/api", fmt.Sprint("crowd-", i))
		}
		r.scrape(t)
	}
	r.scene.startRedis(t)
	r.waitFor(t, "/payments", 200)
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
	r.get(t, "/plan", "customer", "X-Limit", "many")
	r.get(t, "/tokens", "customer", "X-Cost", "4")
	r.get(t, "/tokens", "customer", "X-Cost", "25")
}

func (r *recording) get(t *testing.T, path, client string, headers ...string) int {
	t.Helper()
	status, err := r.scene.get(path, client, headers...)
	must(t, err)
	return status
}

// waitFor sends requests to a path until their status is as wanted.
func (r *recording) waitFor(t *testing.T, path string, want int) {
	t.Helper()
	wait(t, fmt.Sprint(path, " is answered with ", want), func() bool { return r.get(t, path, "probe") == want })
}

// waitForSeries waits until the metrics have a series that begins so.
func (r *recording) waitForSeries(t *testing.T, series string) {
	t.Helper()
	wait(t, "there is "+series, func() bool { return strings.Contains(string(r.scene.metrics(t)), "caddy_redis_ratelimit_"+series) })
}

// wait waits until something holds.
func wait(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(10 * time.Millisecond) { //nolint:forbidigo // it looks again
		if time.Now().After(deadline) {
			t.Fatal("it never is so that ", what)
		}
	}
}

// scrape reads the metrics, with a timestamp scrapeEvery after the last.
func (r *recording) scrape(t *testing.T) {
	t.Helper()
	r.add(t, r.scene.metrics(t), r.end)
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
