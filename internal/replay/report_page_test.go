package replay

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/display"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay/accesslog"
)

// pageText is what a reader sees of a page.
func pageText(t *testing.T, page string) string {
	t.Helper()
	return strings.ReplaceAll(textOf(parsed(t, page)), noBreak, " ")
}

// TestWrite_current_limit marks no limit that the curve does not show as it is; TestWrite_numbers has one that is.
func TestWrite_current_limit(t *testing.T) {
	for name, change := range map[string]func(s *suggestions){
		"another window or key, or something not tried": func(s *suggestions) { s.OwnLimit = 0 },
		"other algorithms only":                         func(s *suggestions) { s.Ladders = s.Ladders[1:] },
	} {
		r := sampleResult()
		change(r.Suggestions)
		assert.ErrorIf(t, strings.Contains(pageText(t, reportOf(t, r)), "limit now"), "%s: a limit is marked", name)
	}
}

// ticksOf are the labels of a chart's horizontal axis, from left to right.
func ticksOf(c *chart) []chartText {
	ticks := slices.DeleteFunc(slices.Clone(c.Texts), func(text chartText) bool { return text.Class != "tick" || text.Anchor != "middle" })
	slices.SortFunc(ticks, func(a, b chartText) int { return cmp.Compare(a.X, b.X) })
	return ticks
}

func TestLogAxis_labels(t *testing.T) {
	for high := int64(2); high < 5_000_000; high += 1 + high/7 {
		for _, low := range []int64{1, high / 30, high / 2} {
			ladder := Ladder{Limits: []limitResult{{Limit: max(1, low)}, {Limit: high}}}
			ticks := ticksOf(curveChart("curve", &suggestions{Window: time.Minute}, ladder, 0))
			for i, tick := range ticks[min(1, len(ticks)):] {
				before := ticks[i]
				gap := tick.X - before.X - (textWidth(tick.Text)+textWidth(before.Text))/2
				assert.ErrorIf(t, gap < 5.8, "from %d to %d: %.1f between %q and %q", low, high, gap, before.Text, tick.Text)
			}
		}
	}
}

// TestWrite_says has results, and what a reader is told of them.
func TestWrite_says(t *testing.T) {
	moment := time.Date(2026, 11, 3, 14, 5, 7, 0, time.UTC)
	one := Result{Requests: 1, Clients: 1, First: moment, Last: moment, Step: time.Minute, Timeline: []bucket{{Begins: moment.Truncate(time.Minute), Requests: 1}}}
	denied := one
	denied.Denied = 1
	idle := PolicyResult{PolicyDescription: display.PolicyDescription{Name: "idle", Algorithm: "gcra", Limit: 5, Window: display.DurationSeconds(time.Minute)}}
	quiet := PolicyResult{PolicyDescription: display.PolicyDescription{Name: "quiet", Limit: 5, Window: display.DurationSeconds(time.Minute)}, Requests: 1, Clients: 1, Timeline: one.Timeline}
	dynamic := PolicyResult{PolicyDescription: display.PolicyDescription{Name: "dynamic", Algorithm: "gcra", Limit: 5, LimitFrom: "{http.request.header.X-Limit}", Window: display.DurationSeconds(time.Minute)}}
	queue := PolicyResult{PolicyDescription: display.PolicyDescription{Name: "queue", Algorithm: "leaky_bucket", Limit: 60, Burst: 20, MaxDelay: new(display.DurationSeconds(5 * time.Second)), Window: display.DurationSeconds(time.Minute)}}
	units := PolicyResult{PolicyDescription: display.PolicyDescription{Name: "p", Limit: 3, Window: display.DurationSeconds(time.Minute)}, Units: &Units{Offered: 6_000, Admitted: 4_500, Denied: 1_500}}
	refunds := PolicyResult{PolicyDescription: display.PolicyDescription{Name: "p", Limit: 3, Window: display.DurationSeconds(time.Minute)}, Units: &Units{Offered: 6_000, Admitted: 4_500, Refunded: 500}}
	counts := PolicyResult{PolicyDescription: display.PolicyDescription{Name: "counts", Algorithm: "fixed_window", Limit: 7, Window: display.DurationSeconds(time.Hour), Handlers: []display.Handler{{CountIf: "status 401", Cost: "response_bytes"}}}}
	lively := *sampleResult()
	lively.Requests, lively.Denied, lively.Clients, lively.ClientsDenied = 30_969, 1_234, 2_365, 12
	untried := *sampleResult()
	untried.Suggestions.NotTried = []string{"what is charged is left out"}
	sampled := *sampleResult()
	sampled.Suggestions.Ladders[0].Sample = &sampleReport{Share: 0.5, Clients: 40, Requests: 900, ErrorRequests: 0.02, ErrorClients: 0.05}
	read := func(l readReport) Result { return Result{Log: l} }
	malformed := readReport{
		Lines: 9, Malformed: 2, MalformedExamples: []accesslog.Skipped{{Where: "a:1", Reason: "cut off", Text: "bad text"}},
	}
	for _, tt := range []struct {
		name   string
		result Result
		want   string
	}{
		{"nothing at all", Result{}, "There was no request to play"},
		{"a sample of the keys", sampled, "The numbers are estimates: sliding_window_counter: played for 40 of "},
		{"one request", one, "Of 1 request of 1 client between 14:05 and 14:05 UTC on 3 November 2026, none would have been refused."},
		{"a day", lively, "Of 30,969 requests of 2,365 clients between 00:00 and 23:59 UTC on 3 November 2026, " +
			"1,234 (4.0 %) would have been refused, 12 clients (0.5 %) affected."},
		{"one request denied", denied, "1 (100 %) would have been refused"},
		{"a limit of requests", with(one, dynamic), "{http.request.header.X-Limit} requests per minute for each key, else 5"},
		{"a queue", with(one, queue), "burst 20, max_delay 5s"},
		{"units", with(one, units), "Units offered6,000Units admitted4,500Units denied1,500 (25.0 %) The log"},
		{"refunds", with(one, refunds), "Refunded after responses500Units used4,000"},
		{"a cost", with(one, counts), "count_if status 401, cost response_bytes"},
		{"something not tried", untried, "Not everything is tried: what is charged is left out"},
		{"a whole log", read(readReport{Lines: 9}), "All of them could be read."},
		{"malformed lines", read(malformed), "bad text"},
		{"late lines", read(readReport{Lines: 9, Late: 3}), "stood too far behind"},
		{"a file cut off", read(readReport{Lines: 9, Files: []fileReport{{Name: "a.gz", Requests: 8, Error: "unexpected end"}}}), "unexpected end The lines of a file before its error count."},
		{"a file without requests", read(readReport{Lines: 9, Files: []fileReport{{Name: "a.json", Error: "no line is a request"}}}), "no line is a request"},
		{"a policy without requests", with(one, idle), "No request met this policy."},
		{"no denial", with(one, quiet), "It would have refused none of them."},
		{"a timeline without a step", Result{Requests: 1, Timeline: one.Timeline}, "requests per minute"},
		{"suggestions without traffic", suggesting(one, suggestions{Policy: "idle", Ladders: []Ladder{{Limits: []limitResult{}}}}), "No request met policy idle, so there was nothing to try other limits on."},
		{"suggestions without limits", suggesting(one, suggestions{Requests: 1, Ladders: make([]Ladder, 2)}), "Algorithms compared"},
		{"one limit only", suggesting(one, suggestions{Requests: 1, Clients: 1, Ladders: []Ladder{{Limits: []limitResult{{Limit: 7}}}}}), "limit per"},
		{"limits that deny nothing", suggesting(one, suggestions{Requests: 1, Ladders: []Ladder{{Limits: []limitResult{{Limit: 1}, {Limit: 2}}}}}), "80 % 100 %"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			page := reportOf(t, &tt.result)
			text := pageText(t, page)
			assert.ErrorIf(t, !strings.Contains(text, tt.want), "the report does not say %q", tt.want)
			before := strings.Contains(text, "The lines of a file before its error count.")
			assert.ErrorIf(t, before != (tt.name == "a file cut off"), "the report says that lines before an error count: %t", before)
			unread := strings.Contains(text, "Not all of the log was read as it should be")
			assert.ErrorIf(t, unread != incomplete(tt.result.Log), "the report says that not all was read: %t", unread)
			for _, garbage := range []string{"NaN", "Inf", "%!", "<nil>", "0001-01-01"} {
				assert.ErrorIf(t, strings.Contains(page, garbage), "the report says %q", garbage)
			}
		})
	}
}

func with(r Result, p PolicyResult) Result {
	r.Policies = []PolicyResult{p}
	return r
}

func suggesting(r Result, s suggestions) Result {
	r.Suggestions = &s
	return r
}

func TestWrite_size_of_long_logs(t *testing.T) {
	r := sampleResult()
	r.Timeline = []bucket{
		{Begins: time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC), Requests: 1},
		{Begins: time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC), Requests: 1},
		{Begins: time.Date(2026, 11, 3, 0, 0, 0, 0, time.UTC), Requests: 1, Denied: 1},
		{Begins: time.Date(9999, 12, 31, 23, 59, 0, 0, time.UTC), Requests: 1},
	}
	page := reportOf(t, r)
	assert.ErrorIf(t, len(page) > 300_000 || strings.Contains(page, "NaN"), "%d bytes", len(page))
}

func TestWrite_thinned_timeline(t *testing.T) {
	r := sampleResult()
	for most := 1; most < 2_000; most += 13 {
		thin, step := thinTimeline(r.Timeline, r.Step, most)
		var requests int64
		for i, m := range thin {
			requests += m.Requests
			if i > 0 && m.Begins.Sub(thin[i-1].Begins) != step {
				t.Fatalf("a step of %s, want %s", m.Begins.Sub(thin[i-1].Begins), step)
			}
		}
		assert.ErrorIf(t, requests != r.Requests || len(thin) > max(most+1, 2),
			"at most %d: %d steps with %d requests, want %d requests", most, len(thin), requests, r.Requests)
	}
}

// runningPage is the report on one policy of running requests.
func runningPage(t *testing.T, p PolicyResult, s *suggestions) string {
	t.Helper()
	at := time.Date(2026, 11, 3, 0, 0, 0, 0, time.UTC)
	r := &Result{Requests: 9, Clients: 2, First: at, Last: at, Policies: []PolicyResult{p}, Suggestions: s}
	return pageText(t, reportOf(t, r))
}

func TestReport_running(t *testing.T) {
	at := time.Date(2026, 11, 3, 0, 0, 0, 0, time.UTC)
	running := &runningResult{
		Requests: 9, Untimed: 2, Peak: 5, PeakAt: at, Together: 6, TogetherAt: at, Clients: 2,
		Peaks: []peakRate{{From: 1, To: 1, Clients: 1}, {From: 4, To: 6, Clients: 1}}, Busiest: []runningClient{{Key: "a", Requests: 8, Peak: 5, PeakAt: at}},
	}
	p := PolicyResult{PolicyDescription: display.PolicyDescription{Name: "downloads", MaxConcurrent: 3, Handlers: []display.Handler{{Key: "{k}"}}}, Requests: 9, Clients: 2, Running: running}
	page := runningPage(t, p, nil)
	for _, want := range []string{
		"3 requests at once for each {k}", "one client had at most 5 requests running at once, first at 00:00 UTC on 3 November 2026, and all clients together 6",
		"2 requests without a duration in the log were left out", "4–6150.0 %", "a852026-11-03 00:00:00",
	} {
		assert.ErrorIf(t, !strings.Contains(page, want), "no %q in %s", want, page)
	}
	assert.ErrorIf(t, strings.Contains(page, "max_concurrent 330 s") || strings.Contains(page, "Units offered"),
		"a window of nothing, or units, in %s", page)

	tried := *running
	tried.Limits = &Ladder{Algorithm: "max_concurrent", Untouched99: 5, Limits: []limitResult{{Limit: 1, Denied: 5, ClientsDenied: 1}, {Limit: 5}}}
	s := &suggestions{Policy: "downloads", Key: "{k}", Requests: 9, Clients: 2, Running: &tried}
	page = runningPage(t, p, s)
	if !strings.Contains(page, "limit of requests at once") || strings.Count(page, "had at most 5") != 1 {
		t.Errorf("%d sentences about the peak in %s", strings.Count(page, "had at most 5"), page)
	}
	assert.ErrorIf(t, !strings.Contains(page, "limit now: 3"), "no limit is marked in %s", page)
	s.Key, s.NotTried = "{other}", []string{"bans"}
	if page = runningPage(t, p, s); strings.Count(page, "had at most 5") != 2 || strings.Contains(page, "limit now") {
		t.Errorf("the peaks of other keys do not stand in %s, or a limit that is not theirs", page)
	}
}

func TestWords(t *testing.T) {
	day := time.Date(2026, 11, 3, 14, 5, 7, 0, time.FixedZone("", 3600))
	for _, tt := range []struct{ got, want string }{
		{sayCounted(1, "request"), "1 request"}, {sayCounted(2_000, "request"), "2,000 requests"},
		{sayPercent(0, 0), "–"}, {sayPercent(0, 7), "0 %"}, {sayPercent(1, 30_000), "< 0.01 %"},
		{sayDuration(90 * time.Second), "1 min 30 s"}, {sayPeriod(5 * time.Minute), "5 minutes"},
		{sayTime(day), "13:05 UTC on 3 November 2026"}, {sayTime(time.Time{}), "–"}, {sayCell(day), "2026-11-03 13:05:07"},
		{sayBetween(day, day.Add(time.Hour)), "between 13:05 and 14:05 UTC on 3 November 2026"},
		{sayBetween(day, day.Add(24*time.Hour)), "between 13:05 UTC on 3 November 2026 and 13:05 UTC on 4 November 2026"},
		{sayRange(3, 3), "3"}, {sayRange(1_000, 1_499), "1,000–1,499"},
		{axisCount(12_000), "12,000"}, {axisPercent(0.02), "0.02 %"}, {axisPercent(100), "100 %"},
	} {
		got := strings.ReplaceAll(tt.got, noBreak, " ")
		assert.ErrorIf(t, got != tt.want, "got %q, want %q", got, tt.want)
	}
}
