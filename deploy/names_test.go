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

// begin and scrapeEvery are the times that samples are given: a test need not wait for them to pass.
var begin = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

const scrapeEvery = 15 * time.Second

// recording is a Caddy's metrics, read now and then.
type recording struct {
	*samples.Samples

	scene *scene.Scene
	end   time.Time // of the next reading
}

// record makes a real Caddy do all that metrics tell of, and keeps them.
func record(t *testing.T) *recording {
	t.Helper()
	r := &recording{end: begin}
	var err error
	if r.Samples, err = samples.New(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() }) // its folder goes with it
	if r.scene, err = scene.Start(t.Context(), binary(t), t.TempDir()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.scene.Close)
	r.waitFor(t, "/payments", 200) // by Redis
	for range 2 {
		r.traffic(t)
		r.scrape(t)
	}
	r.scene.KillRedis()
	r.waitFor(t, "/payments", 503)
	for range 2 {
		r.traffic(t)
		for i := range 1100 { // more than there is room for
			r.get(t, "/api", fmt.Sprint("crowd-", i))
		}
		r.scrape(t)
	}
	if err := r.scene.StartRedis(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.waitFor(t, "/payments", 200)
	r.scrape(t)
	return r
}

// traffic uses every policy, within its limit and beyond.
func (r *recording) traffic(t *testing.T) {
	t.Helper()
	for _, path := range []string{"/api", "/login", "/payments", "/assets", "/reports", "/trial"} {
		for range 60 {
			r.get(t, path, "flood")
		}
		r.get(t, path, "other")
	}
	r.get(t, "/plan", "customer", "X-Limit", "many")
}

func (r *recording) get(t *testing.T, path, client string, headers ...string) int {
	t.Helper()
	status, err := r.scene.Get(t.Context(), path, client, headers...)
	if err != nil {
		t.Fatal(err)
	}
	return status
}

// waitFor asks for a path until it is answered in a way.
func (r *recording) waitFor(t *testing.T, path string, want int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
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

// scrape reads the metrics, as if the usual time had passed since the last reading.
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

// exported are the labels of each metric, and their values.
type exported map[string]map[string]map[string]bool

// exported lists what this module's metrics were.
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

func TestDashboard_and_rules_name_only_what_is_exported(t *testing.T) {
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
