package deploy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/deploy/samples"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/deploy/scene"
)

// begin and scrapeEvery are the timestamps of the samples. They do not pass in real time.
var begin = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

const scrapeEvery = 15 * time.Second

// recording holds the metrics of a Caddy, read several times.
type recording struct {
	*samples.Samples

	scene *scene.Scene
	end   time.Time // of the next scrape
}

// record runs a real Caddy through everything that metrics count, and stores them.
func record(t *testing.T) *recording {
	t.Helper()
	r := &recording{end: begin}
	var err error
	if r.Samples, err = samples.New(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() }) // the test removes its folder
	if r.scene, err = scene.Start(t.Context(), binary(t), t.TempDir()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.scene.Close)
	r.waitFor(t, "/payments", 200) // by Redis
	for range 2 {
		r.traffic(t)
		r.waitForSeries(t, `leased_units_total{outcome="spent",policy="hot"}`)
		r.scrape(t)
	}
	if err := r.scene.KillRedisDuring(t.Context(), "/jobs", "other"); err != nil {
		t.Fatal(err)
	}
	r.waitFor(t, "/payments", 503)
	for range 2 {
		r.traffic(t)
		for i := range 1100 { // more than max_keys
			r.get(t, "/api", fmt.Sprint("crowd-", i))
		}
		r.scrape(t)
	}
	if err := r.scene.StartRedis(t.Context()); err != nil {
		t.Fatal(err)
	}
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
	status, err := r.scene.Get(t.Context(), path, client, headers...)
	if err != nil {
		t.Fatal(err)
	}
	return status
}

// waitFor sends requests to a path until their status is as wanted.
func (r *recording) waitFor(t *testing.T, path string, want int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		got := r.get(t, path, "probe")
		if got == want {
			return
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("%s is answered with %d, want %d", path, got, want)
		}
	}
}

// waitForSeries waits until the metrics have a series that begins so.
func (r *recording) waitForSeries(t *testing.T, series string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		text, err := r.scene.Metrics(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "caddy_redis_ratelimit_"+series) {
			return
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("there is no %s", series)
		}
	}
}

// scrape reads the metrics, with a timestamp scrapeEvery after the last.
func (r *recording) scrape(t *testing.T) {
	t.Helper()
	text, err := r.scene.Metrics(t.Context())
	if err == nil {
		err = r.Add(text, r.end, "node-1:2019")
	}
	if err != nil {
		t.Fatal(err)
	}
	r.end = r.end.Add(scrapeEvery)
}

// exported maps each metric to its labels and their values.
type exported map[string]map[string]map[string]bool

// exported returns this module's metrics of the whole recording.
func (r *recording) exported(t *testing.T) exported {
	t.Helper()
	matrix, err := r.Range(`{__name__=~"caddy_redis_ratelimit_.+"}`, begin, r.end, scrapeEvery)
	if err != nil {
		t.Fatal(err)
	}
	e := exported{}
	for _, series := range matrix {
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
				expr := d.Expand(target.Expr, "1m")
				if strings.Contains(expr, "$") {
					t.Fatalf("%s: a variable is left", expr)
				}
				if err := errors.Join(known.check(expr, nil)...); err != nil {
					t.Fatalf("%s: %v", expr, err)
				}
				r.checkShows(t, expr, target.Legend)
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
