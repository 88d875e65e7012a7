package report

import (
	"encoding/xml"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// measured returns a row of three rounds, from a first one on.
func measured(title string, base *Row, first int, storeCPU float64, cpu ...float64) *Row {
	r := &Row{Title: title, Base: base}
	if base == nil {
		r.Base = r
	}
	for i, us := range cpu {
		r.Samples = append(r.Samples, Sample{Round: first + i, Rate: 70_000, P50: time.Millisecond, CPU: us, StoreCPU: storeCPU})
	}
	return r
}

func example() []*Group {
	base := measured("bare Caddy", nil, 0, 0, 30, 80, 50)
	ours := measured("this module & a store", base, 0, 6, 36.5, 86.5, 56.7)
	ours.Ours = true
	noisy := measured("noisy", base, 0, 1, 31, 83, 55)
	return []*Group{{Title: "64 connections", Rows: []*Row{base, ours, noisy}}}
}

func TestRow_Added_pairs_rounds(t *testing.T) {
	base := measured("bare Caddy", nil, 0, 0, 30, 80, 50)
	later := measured("later", base, 1, 0, 86, 56, 1000) // round 3 has no base
	if got := later.Added(); got.Median != 6 || got.Low != 6 || got.High != 6 || !got.Separable() {
		t.Errorf("got %+v", got)
	}
	if later.Alone = true; later.Added().Median != 86 {
		t.Errorf("beside a web server: got %+v", later.Added())
	}
	if got := base.Added(); got != (Estimate{}) || !base.Settled() {
		t.Errorf("the base itself: got %+v", got)
	}
}

func TestRow_Settled_needs_both_intervals(t *testing.T) {
	base := measured("bare Caddy", nil, 0, 0, 30, 80, 50)
	r := measured("row", base, 0, 4, 31, 81, 51)
	if !r.Settled() {
		t.Errorf("added %v, store %v: not settled", r.Added(), r.Store())
	}
	for i := range r.Samples {
		r.Samples[i].StoreCPU += float64(i)
	}
	if r.Settled() {
		t.Errorf("store %v: settled", r.Store())
	}
	if one := measured("row", base, 0, 0, 31); one.Settled() {
		t.Error("settled by one round")
	}
}

// TestEstimate_covers draws skewed numbers of a known median: about 95 of 100 intervals must contain it.
func TestEstimate_covers(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 0))
	const trials, medianOfExponential = 400, 0.6931471805599453
	covered, width := 0, 0.0
	for range trials {
		numbers := make([]float64, 60)
		for i := range numbers {
			numbers[i] = random.ExpFloat64()
		}
		e := estimate(numbers)
		if e.Low <= medianOfExponential && medianOfExponential <= e.High {
			covered++
		}
		width += (e.High - e.Low) / trials
	}
	// The median's standard error is 1/sqrt(60) here, so that intervals are some 0.5 wide.
	if covered < trials*92/100 || covered > trials*98/100 || width < 0.4 || width > 0.6 {
		t.Errorf("%d of %d intervals contain the median; their mean width is %.2f", covered, trials, width)
	}
}

func TestEstimate_String(t *testing.T) {
	tests := []struct {
		e    Estimate
		want string
	}{
		{Estimate{}, ""},
		{Estimate{2, 1.6, 2.55, 30}, "2.0 (1.6–2.6)"},
		{Estimate{-0.04, -0.2, 0.1, 30}, "0.0 (-0.2–0.1)"},
		{Estimate{2, 1.5, 2.5, 30}, "not separable (1.5–2.5)"},
		{Estimate{2, 2, 2, 1}, "not separable (2.0–2.0)"},
	}
	for _, test := range tests {
		if got := test.e.String(); got != test.want {
			t.Errorf("%+v: got %q, want %q", test.e, got, test.want)
		}
	}
}

func TestPage_Check(t *testing.T) {
	base := measured("bare Caddy", nil, 0, 0, 30, 80, 50)
	tests := []struct {
		cpu   []float64
		fails bool
	}{
		{[]float64{30.2, 79.9, 50}, false},
		{[]float64{30.2, 80.3, 50.2}, true}, // not 0
		{[]float64{29, 81, 50}, true},       // too wide
	}
	for _, test := range tests {
		same := measured("again", base, 0, 0, test.cpu...)
		same.Check = true
		check := Page{Groups: []*Group{{Rows: []*Row{base, same}}}}.Check()
		if strings.Contains(check, "does not hold") != test.fails || check == "" {
			t.Errorf("%v: got %q", test.cpu, check)
		}
	}
}

// TestGroup_Ratios pairs rounds: their medians have another ratio.
func TestGroup_Ratios(t *testing.T) {
	base := measured("bare Caddy", nil, 0, 0, 30, 80, 50)
	one, two := measured("one policy", base, 0, 0, 31, 81, 51), measured("two policies", base, 0, 0, 31, 81, 51)
	for i, cpu := range []float64{2, 4, 8} {
		one.Samples[i].StoreCPU, two.Samples[i].StoreCPU = cpu, cpu*1.25
	}
	two.Samples[1].StoreCPU = 20
	g := &Group{Rows: []*Row{base, one, two}}
	if got := g.Ratios(); got != "" {
		t.Errorf("with nothing to compare: %q", got)
	}
	two.Single = one
	want := "Redis's processor time by that of one policy in the same round: two policies 1.25 (1.25–5.00)."
	if got := g.Ratios(); got != want {
		t.Errorf("got %q, want %q", got, want)
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
	groups := example()
	write := func() string {
		var text strings.Builder
		if err := WritePage(&text, Page{Facts: [][2]string{{"machine", "2 cores"}}, Groups: groups, Notes: []string{"A note."}}); err != nil {
			t.Fatal(err)
		}
		return text.String()
	}
	for _, want := range []string{
		"- machine: 2 cores\n",
		"|bare Caddy|||70,000|1.000|0|\n",
		"|this module & a store|6.5 (6.5–6.7)|6.0 (6.0–6.0)|70,000|1.000|0|\n",
		"|noisy|not separable (1.0–5.0)|1.0 (1.0–1.0)|70,000|1.000|0|\n",
		"\nA note.\n",
	} {
		if !strings.Contains(write(), want) {
			t.Errorf("no %q in:\n%s", want, write())
		}
	}
	groups[0].Rows[0].Samples[0].Instructions, groups[0].Rows[0].Samples[1].Instructions = 25_000, 25_000
	if want := "|bare Caddy|||25,000|70,000|"; !strings.Contains(write(), want) {
		t.Errorf("no %q in:\n%s", want, write())
	}
}

// TestWritePage_keeps_instructions has either command write its part of the page anew.
func TestWritePage_keeps_instructions(t *testing.T) {
	write := func(date, old string) string {
		var text strings.Builder
		p := Page{Facts: [][2]string{{"date", date}}, Groups: example(), Notes: []string{"A note."}, Instructions: Instructions(old)}
		if err := WritePage(&text, p); err != nil {
			t.Fatal(err)
		}
		return text.String()
	}
	bare := write("Monday", "")
	page := WithInstructions(bare, "## Instructions\n")
	if want := bare + "\n<!-- make instructions -->\n\n## Instructions\n\n<!-- end of make instructions -->\n"; page != want {
		t.Errorf("got\n%s\nwant\n%s", page, want)
	}
	later := WithInstructions(write("Tuesday", page), "## More\n")
	if want := strings.NewReplacer("Monday", "Tuesday", "## Instructions", "## More").Replace(page); later != want {
		t.Errorf("got\n%s\nwant\n%s", later, want)
	}
	if kept := Instructions("<!-- make instructions -->\ncut off"); kept != "" {
		t.Errorf("a part without an end: %q", kept)
	}
}

func TestWriteChart_is_well_formed(t *testing.T) {
	groups := example()
	alone := measured("alone", groups[0].Rows[0], 0, 1, 100, 100, 100)
	alone.Alone, alone.Long = true, true
	groups[0].Rows = append(groups[0].Rows, alone)
	var text strings.Builder
	if err := WriteChart(&text, groups); err != nil {
		t.Fatal(err)
	}
	for decoder := xml.NewDecoder(strings.NewReader(text.String())); ; {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%v in:\n%s", err, text.String())
		}
	}
	for _, want := range []string{"this module &amp; a store 6.5 + 6.0. noisy not separable. alone 100.0 + 1.0. ", `width="199.7"`, `class="cut"`} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in:\n%s", want, text.String())
		}
	}
}
