package redisratelimit

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/requestbody"
)

// TestBody_bounds has limiters read bodies by the option, by its defaults, and by less where max_bodies has no room for these.
func TestBody_bounds(t *testing.T) {
	for _, test := range []struct {
		app, body string
		want      requestbody.Bounds
	}{
		{`{}`, `null`, requestbody.Bounds{Size: 1 << 20, Within: 10 * time.Second}},
		{`{}`, `{}`, requestbody.Bounds{Size: 1 << 20, Within: 10 * time.Second}},
		{`{}`, `{"max_size":16777216}`, requestbody.Bounds{Size: 16 << 20, Within: 10 * time.Second}},
		{`{}`, `{"timeout":"1h"}`, requestbody.Bounds{Size: 1 << 20, Within: time.Hour}},
		{`{}`, `{"max_size":1,"timeout":1}`, requestbody.Bounds{Size: 1, Within: 1}},
		{`{"memory":{"max_bodies":1048576}}`, `null`, requestbody.Bounds{Size: 128 << 10, Within: 10 * time.Second}},
		{`{"memory":{"max_bodies":1048576}}`, `{"timeout":"1s"}`, requestbody.Bounds{Size: 128 << 10, Within: time.Second}},
		{`{"memory":{"max_bodies":1048576}}`, `{"max_size":131072}`, requestbody.Bounds{Size: 128 << 10, Within: 10 * time.Second}},
		{`{"memory":{"max_bodies":536870912}}`, `null`, requestbody.Bounds{Size: 1 << 20, Within: 10 * time.Second}},
		{`{"memory":{"max_bodies":536870912}}`, `{"max_size":67108864}`, requestbody.Bounds{Size: 64 << 20, Within: 10 * time.Second}},
		{`{"memory":{"max_keys":5}}`, `null`, requestbody.Bounds{Size: 1 << 20, Within: 10 * time.Second}},
	} {
		h := loadHandler(t, lastingContext(t, test.app), `{"policies":[{"limit":5,"window":"24h"}],"body":`+test.body+`}`)
		assert.Equal(t, h.limiter.BodyBounds, test.want, "the bounds of %s in %s", test.body, test.app)
		assert.ErrorIf(t, h.limiter.Bodies != bodies, "the limiter has an account of its own")
	}
}

// TestBody_metric has the metric show what is held when it is read.
func TestBody_metric(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	assert.Must(t, registerMetrics(registry))
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader("name=value"))
	for _, held := range []bool{false, true, false} {
		if held {
			got := bodies.Read(httptest.NewRecorder(), r, "192.0.2.1", requestbody.Bounds{Size: 100, Within: time.Hour})
			assert.Equal(t, string(got.Bytes()), "name=value", "the body")
		}
		assert.Equal(t, bodies.Held() > 0, held, "a body is held")
		families := assert.NoError(registry.Gather())(t)
		at := slices.IndexFunc(families, func(f *dto.MetricFamily) bool { return f.GetName() == metricsNamespace+"_body_bytes" })
		assert.FatalIf(t, at < 0, "there is no such metric")
		assert.Equal(t, families[at].GetMetric()[0].GetGauge().GetValue(), float64(bodies.Held()), "the metric")
		assert.Must(t, r.Body.Close())
	}
}

// TestBody_concurrently has many requests read their bodies at once, for keys, numbers, matchers and names elsewhere: each
// account has its limit, and each answer the value of its own request.
func TestBody_concurrently(t *testing.T) {
	const accounts, limit, each = 8, 20, 50
	server := loadServer(t, "", `{"handler":"redis_ratelimit","policies":[
		{"name":"accounts","key":"{http.redis_ratelimit.json.user}","limit":20,"window":"24h"},
		{"name":"numbers","key":"{http.redis_ratelimit.json.user}","limit":1000,"limit_from":"{http.redis_ratelimit.json.limit}","window":"24h",
			"match":[{"vars":{"{http.redis_ratelimit.json.model}":["large"]}},{"path":["/never"]}]}]},
		{"handler":"static_response","body":"{http.redis_ratelimit.json.user} {http.redis_ratelimit.json.model}"},`)
	var group sync.WaitGroup
	var passed [accounts]atomic.Int64
	for i := range accounts * each {
		group.Go(func() {
			user, model := fmt.Sprint("user", i%accounts), []string{"large", "small"}[i/accounts%2]
			body := fmt.Sprintf(`{"padding":%q,"user":%q,"model":%q,"limit":%d}`, strings.Repeat("x", i*20), user, model, 1000+i%3)
			ctx, end := context.WithCancel(t.Context()) // as net/http has for each request
			defer end()
			r := httptest.NewRequestWithContext(ctx, http.MethodPost, "http://127.0.0.1/", strings.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			server.ServeHTTP(w, r)
			switch {
			case w.Code == http.StatusTooManyRequests:
			case w.Code == http.StatusOK && w.Body.String() == user+" "+model:
				passed[i%accounts].Add(1)
			default:
				t.Errorf("got status %d and %q for %s", w.Code, w.Body, user)
			}
		})
	}
	group.Wait()
	for i := range passed {
		assert.Equal(t, passed[i].Load(), limit, "the requests of account %d that passed", i)
	}
	assert.Retry(t, "all bodies are given back", func() (again bool, seen any) { return bodies.Held() != 0, bodies.Held() })
}
