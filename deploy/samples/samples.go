// Package samples stores readings of /metrics in a real Prometheus database and queries it.
package samples

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/tsdb"
)

// Samples are series over time.
type Samples struct {
	db     *tsdb.DB
	engine *promql.Engine
}

// New opens an empty database in a folder.
func New(dir string) (*Samples, error) {
	db, err := tsdb.Open(dir, nil, nil, tsdb.DefaultOptions(), nil)
	if err != nil {
		return nil, err
	}
	return &Samples{db, promql.NewEngine(promql.EngineOpts{MaxSamples: 10e6, Timeout: time.Minute})}, nil
}

// Close closes the database.
func (s *Samples) Close() error { return s.db.Close() }

// Add stores one reading of /metrics, in Prometheus's text format, as if Prometheus had read it at
// that time from that instance.
func (s *Samples) Add(text []byte, at time.Time, instance string) error {
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return err
	}
	appender := s.db.Appender(context.Background())
	for _, family := range families {
		vector, err := expfmt.ExtractSamples(&expfmt.DecodeOptions{Timestamp: model.TimeFromUnixNano(at.UnixNano())}, family)
		if err != nil {
			return err
		}
		for _, sample := range vector {
			series := labels.NewBuilder(labels.FromMap(names(sample.Metric))).Set("instance", instance).Set("job", "caddy").Labels()
			if _, err := appender.Append(0, series, at.UnixMilli(), float64(sample.Value)); err != nil {
				return fmt.Errorf("adding %s: %w", series, err)
			}
		}
	}
	return appender.Commit()
}

func names(metric model.Metric) map[string]string {
	named := make(map[string]string, len(metric))
	for name, value := range metric {
		named[string(name)] = string(value)
	}
	return named
}

// Range evaluates an expression at every step from one time to another. NaN and infinite values,
// such as fractions of zero, are left out.
func (s *Samples) Range(expr string, from, to time.Time, step time.Duration) (promql.Matrix, error) {
	ctx := context.Background()
	query, err := s.engine.NewRangeQuery(ctx, s.db, nil, expr, from, to, step)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", expr, err)
	}
	defer query.Close()
	matrix, err := query.Exec(ctx).Matrix()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", expr, err)
	}
	numbers := make(promql.Matrix, 0, len(matrix))
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
	return numbers, nil
}
