package main

import (
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/plot/plotter"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/deploy/dashboard"
)

func loadPanel(t *testing.T, title string) *dashboard.Panel {
	t.Helper()
	d, err := dashboard.Load("../grafana/redis-ratelimit.json")
	if err != nil {
		t.Fatal(err)
	}
	return d.Panel(title)
}

func TestDraw_well_formed(t *testing.T) {
	flat := plotter.XYs{{X: 3, Y: 1}, {X: 4, Y: 1}}
	var panels []panel
	for _, title := range drawn {
		panels = append(panels, panel{loadPanel(t, title), []line{{name: "<" + title + ">", points: flat}}})
	}
	var svg strings.Builder
	if err := draw(&svg, panels); err != nil {
		t.Fatal(err)
	}
	var words []string
	for decoder := xml.NewDecoder(strings.NewReader(svg.String())); ; {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%v in:\n%s", err, svg.String())
		}
		if text, ok := token.(xml.CharData); ok {
			words = append(words, string(text))
		}
	}
	for _, want := range append([]string{"open", "closed", "0:20", "0:15–0:35 a flood of a few clients"}, drawn...) {
		if !slices.Contains(words, want) {
			t.Errorf("the picture lacks the text %q", want)
		}
	}
	for _, title := range drawn {
		if !slices.Contains(words, "<"+title+">") {
			t.Errorf("no legend of %q", title)
		}
	}
}

func TestAxis_ticks(t *testing.T) {
	tests := []struct {
		unit    string
		highest float64
		want    string
	}{
		{"reqps", 735, "0/s 200/s 400/s 600/s 800/s"},
		{"reqps", 930, "0/s 500/s 1000/s"},
		{"s", 0.028, "0 ms 10 ms 20 ms 30 ms"},
		{"s", 0.0004, "0 ms 100 µs 200 µs 300 µs 400 µs"},
		{"percentunit", 1.0000000001, "0 % 50 % 100 %"},
		{"none", 0, "0 0.5 1"},
	}
	for _, test := range tests {
		t.Run(test.unit, func(t *testing.T) {
			var got []string
			for _, mark := range (axis{dashboard.Field{Unit: test.unit}}).ticks(test.highest) {
				got = append(got, mark.Label)
			}
			if strings.Join(got, " ") != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
	breaker := axis{loadPanel(t, "Breaker").FieldConfig.Defaults}.ticks(1)
	if last := breaker[len(breaker)-1]; breaker[0].Label != "closed" || last.Label != "open" {
		t.Errorf("got %v, want marks from closed to open", breaker)
	}
}

func TestLine_runs(t *testing.T) {
	l := line{points: plotter.XYs{{X: 3}, {X: 4}, {X: 7}, {X: 8}}}
	if runs := l.runs(); len(runs) != 2 || len(runs[0]) != 2 || runs[1][0].X != 7 {
		t.Errorf("got %v, want the parts before and after the gap", runs)
	}
}

func TestLift(t *testing.T) {
	points, stack := plotter.XYs{{X: 3, Y: 1}, {X: 4, Y: 5}}, map[float64]float64{3: 2}
	outline := lift(points, stack)
	if want := (plotter.XYs{{X: 3, Y: 3}, {X: 4, Y: 5}}); !slices.Equal(points, want) {
		t.Errorf("the line is %v, want %v", points, want)
	}
	if want := (plotter.XYs{{X: 4, Y: 0}, {X: 3, Y: 2}, {X: 3, Y: 3}, {X: 4, Y: 5}}); !slices.Equal(outline, want) {
		t.Errorf("the outline is %v, want %v", outline, want)
	}
}
