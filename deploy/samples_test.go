package deploy

import (
	"bytes"
	"math"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/tsdb"
)

// samples are readings of /metrics in a real Prometheus database.
type samples struct {
	db     *tsdb.DB
	engine *promql.Engine
}

func newSamples(t *testing.T) samples {
	t.Helper()
	db, err := tsdb.Open(t.TempDir(), nil, nil, tsdb.DefaultOptions(), nil)
	must(t, err)
	t.Cleanup(func() { _ = db.Close() }) // the test removes its folder
	return samples{db, promql.NewEngine(promql.EngineOpts{MaxSamples: 10e6, Timeout: time.Minute})}
}

// add stores one reading of /metrics, as if Prometheus had read it at that time.
func (s samples) add(t *testing.T, text []byte, at time.Time) {
	t.Helper()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	must(t, err)
	appender := s.db.Appender(t.Context())
	for _, family := range families {
		vector, err := expfmt.ExtractSamples(&expfmt.DecodeOptions{Timestamp: model.TimeFromUnixNano(at.UnixNano())}, family)
		must(t, err)
		for _, sample := range vector {
			series := labels.NewBuilder(labels.EmptyLabels()).Set("instance", "node-1:2019").Set("job", "caddy")
			for name, value := range sample.Metric {
				series.Set(string(name), string(value))
			}
			if _, err := appender.Append(0, series.Labels(), at.UnixMilli(), float64(sample.Value)); err != nil {
				t.Fatal(err)
			}
		}
	}
	must(t, appender.Commit())
}

// values evaluates an expression at every step from one time to another. NaN and infinite values, such as
// fractions of zero, are left out.
func (s samples) values(t *testing.T, expr string, from, to time.Time, step time.Duration) (numbers promql.Matrix) {
	t.Helper()
	query, err := s.engine.NewRangeQuery(t.Context(), s.db, nil, expr, from, to, step)
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	defer query.Close()
	matrix, err := query.Exec(t.Context()).Matrix()
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
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
