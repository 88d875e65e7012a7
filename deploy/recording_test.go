package deploy

import (
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

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

// script is how often the scene plays its traffic: before each outage of Redis, during one, and after the last one.
type script struct{ outages, before, during, after int }

// record runs a real Caddy through everything that metrics count, and stores them.
func record(t *testing.T, script script) *recording {
	t.Helper()
	r := &recording{samples: newSamples(t), scene: startScene(t), end: begin}
	r.scene.Await(t, "/payments", 200, caddytest.Any) // by Redis
	for range script.outages {
		for range script.before {
			r.round(t)
		}
		r.outage(t, script.during)
	}
	for range script.after {
		r.round(t)
	}
	return r
}

// round has requests that Redis decides, and one scrape.
func (r *recording) round(t *testing.T) {
	t.Helper()
	r.traffic(t)
	began := time.Now()
	assert.Retry(t, "a lease is spent", func() (again bool, seen any) {
		if time.Since(began) > 5*time.Second { // on a busy machine the traffic may have been too slow for a lease
			for range 60 {
				r.get(t, "/hot", "flood")
			}
		}
		return r.lacks(t, `leased_units_total{outcome="spent",policy="hot"}`)
	})
	r.waits(t)
}

// outage plays so many rounds without Redis. In the course of four more clients come than the process has room for.
func (r *recording) outage(t *testing.T, rounds int) {
	t.Helper()
	r.scene.Await(t, "/payments", 200, caddytest.Any) // by Redis, as the request that it does not outlive
	r.scene.killRedisDuring(t, "/jobs", "other")
	r.scene.Await(t, "/payments", 503, caddytest.Any)
	for i := range rounds {
		r.traffic(t)
		for j := range 300 {
			r.get(t, "/guess", fmt.Sprint("crowd-", i, "-", j)) // whose window is long enough to fill the memory
		}
		r.scrape(t)
	}
	r.scene.redis.Run(t)
	r.scene.Await(t, "/payments", 200, caddytest.Any)
	r.waitForSeries(t, `settled_units_total{direction="outage"`) // charged on Redis
}

// traffic sends requests to every policy, within its limit and beyond. Their number rises and falls within six minutes.
func (r *recording) traffic(t *testing.T) {
	t.Helper()
	crowd := 60 + int(20*math.Sin(2*math.Pi*r.end.Sub(begin).Minutes()/6))
	for _, path := range []string{"/api", "/login", "/payments", "/assets", "/reports", "/trial", "/guess", "/uploads", "/hot"} {
		for range crowd {
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

// waits has requests wait for a place, and get one or none. It scrapes while some run and wait.
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
	r.scrape(t)
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
	assert.Retry(t, "there is "+series, func() (again bool, seen any) { return r.lacks(t, series) })
}

// lacks reports whether the metrics have no series that begins so, and returns them.
func (r *recording) lacks(t *testing.T, series string) (lacks bool, metrics any) {
	t.Helper()
	text := r.metrics(t)
	return !strings.Contains(text, "caddy_redis_ratelimit_"+series), text
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
