package report

import (
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

const us = time.Microsecond

// measured returns a row with one sample for each rate; each further round takes 2 µs more of the web server.
func measured(title string, against *Row, target Target, cpu, storeCPU time.Duration, rates ...float64) *Row {
	r := &Row{Title: title, Against: against, Target: target}
	for i, rate := range rates {
		r.Samples = append(r.Samples, Sample{
			Rate: rate, P50: time.Millisecond, P99: 25 * time.Millisecond, CPU: cpu + time.Duration(i)*2*us, StoreCPU: storeCPU,
		})
	}
	return r
}

func example() []*Group {
	base := measured("bare Caddy", nil, Target{}, 30*us, 0, 100_000, 80_000, 120_000)
	base.Against = base
	ours := measured("this module, Redis 20 ms away", base, Target{Added: 7 * us, AtLeast: 0.75}, 36500, 6*us, 70_000, 64_000, 60_000)
	ours.Ours = true
	ours.Samples[2].CPU += us
	return []*Group{{Title: "512 connections & a slower link", Rows: []*Row{base, ours}}}
}

func TestRow_compares_round_by_round(t *testing.T) {
	r := example()[0].Rows[1]
	if want := []float64{0.5, 0.7, 0.8}; !slices.Equal(r.Ratios(), want) || r.Ratio() != 0.7 {
		t.Errorf("got %v with median %v, want %v and 0.7", r.Ratios(), r.Ratio(), want)
	}
	if got, want := r.Added(), []time.Duration{6500, 6500, 7500}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if r.Alone = true; r.Added()[0] != 36500 {
		t.Errorf("beside a web server: got %v", r.Added())
	}
}

func TestQuartiles(t *testing.T) {
	tests := []struct {
		numbers      []float64
		first, third float64
	}{
		{[]float64{3}, 3, 3},
		{[]float64{1, 3}, 1.5, 2.5},
		{[]float64{1, 2, 3, 4, 5}, 2, 4},
		{[]float64{0, 4, 8, 12, 16, 20, 24, 28}, 7, 21},
	}
	for _, test := range tests {
		if first, third := quartiles(test.numbers); first != test.first || third != test.third {
			t.Errorf("%v: got %v and %v, want %v and %v", test.numbers, first, third, test.first, test.third)
		}
	}
}

func TestRow_Targets(t *testing.T) {
	base := measured("base", nil, Target{}, 30*us, 0, 100)
	tests := []struct {
		name   string
		target Target
		rate   float64
		want   string
	}{
		{"no target", Target{}, 10, ""},
		{"reached", Target{AtLeast: 0.7}, 70, ">= 0.70 met"},
		{"reached as the table shows it", Target{AtLeast: 0.7}, 69.6, ">= 0.70 met"},
		{"not reached", Target{AtLeast: 0.7}, 69, ">= 0.70 missed"},
		{"kept", Target{AtMost: 1.1}, 110, "<= 1.10 met"},
		{"exceeded", Target{AtMost: 1.1}, 112, "<= 1.10 missed"},
		{"processor time", Target{Added: 6500}, 1, "<= 6.5 µs met"},
		{"processor time as the table shows it", Target{Added: 6460}, 1, "<= 6.5 µs missed"},
		{"too much processor time", Target{Added: 6400}, 1, "<= 6.4 µs missed"},
		{"Redis", Target{StoreCPU: 6 * us}, 1, "Redis <= 6.0 µs met"},
		{"one of two", Target{Added: 7 * us, StoreCPU: 5 * us}, 1, "<= 7.0 µs met, Redis <= 5.0 µs missed"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := measured("row", base, test.target, 36500, 6*us, test.rate)
			got := r.Targets()
			redistest.ErrorIf(t, got != test.want, "got %q, want %q", got, test.want)
		})
	}
	r := measured("row", nil, Target{Within: 20 * time.Millisecond}, 0, 0, 1)
	if r.Measure = P99; r.Targets() != "<= 20 ms missed" {
		t.Errorf("25 ms within 20 ms: %q", r.Targets())
	}
	if r.Samples[0].Wrong = 0.01; r.Targets() != "invalid" {
		t.Errorf("with wrong answers: %q", r.Targets())
	}
}

func TestWritePage_has_a_line_for_every_row(t *testing.T) {
	var text strings.Builder
	redistest.Must(t, WritePage(&text, Page{Facts: [][2]string{{"cores", "2"}}, Groups: example(), Notes: []string{"A note."}}))
	for _, want := range []string{
		"| cores | 2 |\n",
		"| bare Caddy |  |  | 32.0 | 100,000 | 1.00 | 25.0 | 0 | 1.00 |  |\n",
		"| this module, Redis 20 ms away | 6.5 (6.5–7.0) | 6.0 (6.0–6.0) | 38.5 | 64,000 | 1.00 | 25.0 | 0 | 0.70 (0.60–0.75) | <= 7.0 µs met, >= 0.75 missed |\n",
		"\nA note.\n",
	} {
		redistest.ErrorIf(t, !strings.Contains(text.String(), want), "no %q in:\n%s", want, text.String())
	}
}

func TestWriteChart_is_well_formed(t *testing.T) {
	var text strings.Builder
	redistest.Must(t, WriteChart(&text, example()))
	for decoder := xml.NewDecoder(strings.NewReader(text.String())); ; {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%v in:\n%s", err, text.String())
		}
	}
	want := "this module, Redis 20 ms away 6.5 + 6.0. "
	redistest.ErrorIf(t, !strings.Contains(text.String(), want), "the description lacks %q", want)
}
