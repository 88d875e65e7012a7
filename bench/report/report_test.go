package report

import (
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"
)

const us = time.Microsecond

// measured returns a row with one sample for each rate; each further round takes 2 µs more of the web server.
func measured(title string, against *Row, cpu, storeCPU time.Duration, rates ...float64) *Row {
	r := &Row{Title: title, Against: against}
	for i, rate := range rates {
		r.Samples = append(r.Samples, Sample{
			Rate: rate, P99: 25 * time.Millisecond, CPU: cpu + time.Duration(i)*2*us, StoreCPU: storeCPU,
		})
	}
	return r
}

func example() []*Group {
	base := measured("bare Caddy", nil, 30*us, 0, 100_000, 80_000, 120_000)
	base.Against = base
	ours := measured("this module, Redis 20 ms away", base, 36500, 6*us, 70_000, 64_000, 60_000)
	ours.Ours = true
	ours.Samples[2].CPU += us
	return []*Group{{Title: "512 connections & a slower link", Rows: []*Row{base, ours}}}
}

func TestRow_compares_round_by_round(t *testing.T) {
	r := example()[0].Rows[1]
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

func TestNotes_of_wrong_answers(t *testing.T) {
	groups := example()
	if notes := Notes(groups); notes != nil {
		t.Errorf("without one: %q", notes)
	}
	groups[0].Rows[1].Samples[0].Wrong = 0.01
	if notes := Notes(groups); len(notes) != 1 || !strings.Contains(notes[0], "1.0 %") {
		t.Errorf("got %q", notes)
	}
}

func TestWritePage_has_a_line_for_every_row(t *testing.T) {
	var text strings.Builder
	if err := WritePage(&text, Page{Facts: [][2]string{{"machine", "2 cores"}}, Groups: example(), Notes: []string{"A note."}}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"- machine: 2 cores\n",
		"| bare Caddy |  |  | 100,000 | 25.0 | 0 |\n",
		"| this module, Redis 20 ms away | 6.5 (6.5–7.0) | 6.0 | 64,000 | 25.0 | 0 |\n",
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
	if want := "this module, Redis 20 ms away 6.5 + 6.0. "; !strings.Contains(text.String(), want) {
		t.Errorf("the description lacks %q", want)
	}
}
