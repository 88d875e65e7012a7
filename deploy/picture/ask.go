package main

import (
	"fmt"
	"regexp"
	"time"

	"gonum.org/v1/plot/plotter"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/deploy/dashboard"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/deploy/samples"
)

// drawn are the titles of the panels in the picture.
var drawn = []string{
	"Decisions by policy and outcome", "Denied fraction by policy",
	"Deny-cache hits among denials", "Fallback",
	"Store latency", "Batch size",
	"Store errors by kind", "Breaker",
}

// rateInterval is the $__rate_interval of Grafana where scrapes are a second apart.
const rateInterval = "4s"

// line is a series with its name in the legend. X is the second of the scenario.
type line struct {
	name   string
	points plotter.XYs
}

// panel is a panel of the dashboard with its lines.
type panel struct {
	*dashboard.Panel

	lines []line
}

// ask evaluates the panels' expressions on the stored samples.
func ask(d *dashboard.Dashboard, kept *samples.Samples, begin time.Time) ([]panel, error) {
	panels := make([]panel, 0, len(drawn))
	for _, title := range drawn {
		model := d.Panel(title)
		if model == nil {
			return nil, fmt.Errorf("the dashboard has no panel %q", title)
		}
		p := panel{Panel: model}
		for _, target := range model.Targets {
			matrix, err := kept.Range(d.Expand(target.Expr, rateInterval), begin.Add(3*time.Second), begin.Add(length), time.Second)
			if err != nil {
				return nil, err
			}
			for _, series := range matrix {
				l := line{name: legend(target.Legend, series.Metric.Get)}
				for _, f := range series.Floats {
					l.points = append(l.points, plotter.XY{X: float64(f.T-begin.UnixMilli()) / 1000, Y: f.F})
				}
				p.lines = append(p.lines, l)
			}
		}
		if len(p.lines) == 0 {
			return nil, fmt.Errorf("the panel %q shows nothing", title)
		}
		panels = append(panels, p)
	}
	return panels, nil
}

var label = regexp.MustCompile(`\{\{(\w+)\}\}`)

// legend replaces the labels of a legend by their values.
func legend(format string, value func(name string) string) string {
	return label.ReplaceAllStringFunc(format, func(found string) string {
		return value(label.FindStringSubmatch(found)[1])
	})
}
