package deploy

import (
	"math"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/tsdb"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// scene is a running Caddy with its Redis and upstream. Its Caddyfile has a policy for each thing that metrics count.
type scene struct {
	*caddytest.Node
	redis    *redistest.Server
	upstream *caddytest.Holder
}

func startScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{redis: redistest.Start(t), upstream: caddytest.NewHolder(t)}
	text := assert.NoError(os.ReadFile("scene.caddyfile"))(t)
	s.Node = caddytest.Start(t, string(text), "REDIS="+s.redis.Addr, "UPSTREAM="+s.upstream.Addr,
		"INBOX="+caddytest.NewInbox(t, http.StatusInternalServerError).URL)
	return s
}

// killRedisDuring kills Redis while the upstream handles a request, so that the request's refund fails.
func (s *scene) killRedisDuring(t *testing.T, path, client string) {
	t.Helper()
	held := s.upstream.Begin(t, s.Node, path, "X-Client: "+client)
	s.redis.Kill()
	s.upstream.EndOne()
	<-held.Ended
	assert.Equal(t, held.Status, http.StatusOK, "%s: the status", path)
}

// samples are readings of /metrics in a real Prometheus database.
type samples struct {
	db     *tsdb.DB
	engine *promql.Engine
}

func newSamples(t *testing.T) samples {
	t.Helper()
	db := assert.NoError(tsdb.Open(t.TempDir(), nil, nil, tsdb.DefaultOptions(), nil))(t)
	t.Cleanup(func() { _ = db.Close() }) // the test removes its folder
	return samples{db, promql.NewEngine(promql.EngineOpts{MaxSamples: 10e6, Timeout: time.Minute})}
}

// add stores one reading of /metrics, as if Prometheus had read it at that time.
func (s samples) add(t *testing.T, text string, at time.Time) {
	t.Helper()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families := assert.NoError(parser.TextToMetricFamilies(strings.NewReader(text)))(t)
	appender := s.db.Appender(t.Context())
	for _, family := range families {
		vector := assert.NoError(expfmt.ExtractSamples(&expfmt.DecodeOptions{Timestamp: model.TimeFromUnixNano(at.UnixNano())}, family))(t)
		for _, sample := range vector {
			series := labels.NewBuilder(labels.EmptyLabels()).Set("instance", "node-1:2019").Set("job", "caddy")
			for name, value := range sample.Metric {
				series.Set(string(name), string(value))
			}
			assert.NoError(appender.Append(0, series.Labels(), at.UnixMilli(), float64(sample.Value)))(t)
		}
	}
	assert.Must(t, appender.Commit())
}

// values evaluates an expression at every step from one time to another. NaN and infinite values, such as
// fractions of zero, are left out.
func (s samples) values(t *testing.T, expr string, from, to time.Time, step time.Duration) (numbers promql.Matrix) {
	t.Helper()
	query, err := s.engine.NewRangeQuery(t.Context(), s.db, nil, expr, from, to, step)
	assert.FatalIf(t, err != nil, "%s: %v", expr, err)
	defer query.Close()
	matrix, err := query.Exec(t.Context()).Matrix()
	assert.FatalIf(t, err != nil, "%s: %v", expr, err)
	for _, series := range matrix { // copied, because closing the query reuses its points
		kept := promql.Series{Metric: series.Metric}
		for _, p := range series.Floats {
			if !math.IsNaN(p.F) && !math.IsInf(p.F, 0) {
				kept.Floats = append(kept.Floats, p)
			}
		}
		if len(kept.Floats) > 0 {
			numbers = append(numbers, kept)
		}
	}
	return numbers
}
