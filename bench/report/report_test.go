package report

import (
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// throughput returns a row with one rate for each round.
func throughput(title string, against *Row, target Target, rates ...float64) *Row {
	r := &Row{Title: title, Against: against, Target: target}
	for _, rate := range rates {
		r.Samples = append(r.Samples, Sample{Rate: rate, P50: time.Millisecond, P99: 25 * time.Millisecond})
	}
	return r
}

func example() []*Group {
	base := throughput("bare Caddy", nil, Target{}, 100_000, 80_000, 120_000)
	base.Against = base
	ours := throughput("this module, Redis 20 ms away", base, Target{AtLeast: 0.7}, 70_000, 64_000, 60_000)
	ours.Ours = true
	return []*Group{{Title: "512 connections & a slower link", Rows: []*Row{base, ours}}}
}

func TestRow_Ratio_is_the_median_of_the_rounds(t *testing.T) {
	r := example()[0].Rows[1]
	if want := []float64{0.5, 0.7, 0.8}; !slices.Equal(r.Ratios(), want) || r.Ratio() != 0.7 {
		t.Errorf("got %v with median %v, want %v and 0.7", r.Ratios(), r.Ratio(), want)
	}
}

func TestRow_Verdict(t *testing.T) {
	base := throughput("base", nil, Target{}, 100)
	tests := []struct {
		name   string
		target Target
		rate   float64
		want   string
	}{
		{"no target", Target{}, 10, ""},
		{"reached", Target{AtLeast: 0.7}, 70, "met"},
		{"reached as the table shows it", Target{AtLeast: 0.7}, 69.6, "met"},
		{"not reached", Target{AtLeast: 0.7}, 69, "missed"},
		{"kept", Target{AtMost: 1.1}, 110, "met"},
		{"exceeded", Target{AtMost: 1.1}, 112, "missed"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := throughput("row", base, test.target, test.rate)
			if got := r.Verdict(); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
	r := throughput("row", nil, Target{Within: 20 * time.Millisecond}, 1)
	if r.Measure = P99; r.Verdict() != "missed" {
		t.Errorf("25 ms within 20 ms: %q", r.Verdict())
	}
	if r.Samples[0].Wrong = 0.01; r.Verdict() != "invalid" {
		t.Errorf("with wrong answers: %q", r.Verdict())
	}
}

func TestWriteTable_fits_into_80_columns(t *testing.T) {
	var text strings.Builder
	if err := WriteTable(&text, example()); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(text.String()) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	if want := "0.70  >= 0.70 met"; !strings.Contains(text.String(), want) {
		t.Errorf("no %q in:\n%s", want, text.String())
	}
}

func TestWritePage_has_a_line_for_every_row(t *testing.T) {
	var text strings.Builder
	if err := WritePage(&text, Page{Facts: [][2]string{{"cores", "2"}}, Groups: example(), Notes: []string{"A note."}}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| cores | 2 |\n",
		"| this module, Redis 20 ms away | 64,000 | 1.00 | 25.0 |  |  | 0 | 0.70 (0.50–0.80) | >= 0.70 met |\n",
		"\nA note.\n",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in:\n%s", want, text.String())
		}
	}
}

func TestWriteChart_is_well_formed(t *testing.T) {
	var text strings.Builder
	if err := WriteChart(&text, example()); err != nil {
		t.Fatal(err)
	}
	for decoder := xml.NewDecoder(strings.NewReader(text.String())); ; {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%v in:\n%s", err, text.String())
		}
	}
	if want := "this module, Redis 20 ms away 0.70. "; !strings.Contains(text.String(), want) {
		t.Errorf("the description lacks %q", want)
	}
}
