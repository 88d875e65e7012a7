package redisratelimit

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
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
