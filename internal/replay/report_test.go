package replay

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/display"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay/accesslog"
)

func TestWrite_sections(t *testing.T) {
	root := parsed(t, reportOf(t, sampleResult()))
	want := []string{
		"What makes this less than exact", "All requests", "Policy api", "Policy login", "Policy search dry run", "Policy downloads",
		"Other limits on the same traffic", "The log",
	}
	got := textsOf(elements(root, "h2"))
	assert.ErrorIf(t, !slices.Equal(got, want), "sections are %q, want %q", got, want)
}

// TestWrite_others has a calendar policy without a name, of whose many requests few were denied.
func TestWrite_others(t *testing.T) {
	r := sampleResult()
	p := &r.Policies[0]
	p.Name, p.Calendar, p.TimeZone = "", "month", "Europe/Berlin"
	for i := range p.Timeline {
		p.Timeline[i].Requests, p.Timeline[i].Denied = 1_000, min(1, p.Timeline[i].Denied)
	}
	text := textOf(parsed(t, reportOf(t, r)))
	for _, want := range []string{"without a name", "calendar month (Europe/Berlin)", "denied requests alone, on a larger scale"} {
		assert.ErrorIf(t, !strings.Contains(strings.ReplaceAll(text, noBreak, " "), want), "%q is missing in %s", want, text)
	}
	assert.Equal(t, fmt.Sprint(logSteps(1, 1e12)), "[1 100 10000 1e+06 1e+08 1e+10 1e+12]", "the steps of many decades")
}

func TestWrite_charts(t *testing.T) {
	root := parsed(t, reportOf(t, sampleResult()))
	ids := map[string]int{}
	for _, n := range elements(root) {
		if id := attribute(n, "id"); id != "" {
			ids[id]++
		}
	}
	charts := 0
	for _, svg := range elements(root, "svg") {
		if attribute(svg, "aria-hidden") == "true" {
			continue
		}
		charts++
		assert.ErrorIf(t, attribute(svg, "role") != "img", "a chart without role img: %v", svg.Attr)
		for _, key := range []string{"aria-labelledby", "aria-describedby"} {
			assert.ErrorIf(t, ids[attribute(svg, key)] != 1,
				"%s of a chart is %q, which stands %d times", key, attribute(svg, key), ids[attribute(svg, key)])
		}
	}
	// A timeline of all, four of policies, two curves.
	assert.Equal(t, charts, 7, "the number of charts")
	for _, details := range elements(root, "details") {
		rows := elements(details, "tr")
		assert.ErrorIf(t, len(rows) < 2 || len(rows) > 1+tableSteps+2, "a table of %d rows behind a chart", len(rows))
	}
	assert.Equal(t, len(elements(root, "details")), 7+1, "the number of tables behind charts")
}

func TestWrite_numbers(t *testing.T) {
	r := sampleResult()
	page := textOf(parsed(t, reportOf(t, r)))
	for _, want := range []string{
		"2001:db8:a1::/64", "100 requests per minute for each {client_ip}", "5 requests per 5 minutes", "{http.request.header.X-Api-Key}",
		"3,811 requests", "access-2026-11-02.log.gz:2544", "limit now: 100", "100 % untouched: 420", "reverse_proxy",
		"12 requests stood too far behind later ones to be sorted, by up to 4 s,", display.Count(r.Policies[0].Denied),
	} {
		assert.ErrorIf(t, !strings.Contains(page, want) && !strings.Contains(page, strings.ReplaceAll(want, " ", noBreak)),
			"the report does not say %q", want)
	}
}

// reportOf renders a result.
func reportOf(t *testing.T, r *Result) string {
	t.Helper()
	var b bytes.Buffer
	assert.Must(t, WriteReport(&b, r))
	return b.String()
}

// parsed is the report as a browser would understand it.
func parsed(t *testing.T, page string) *html.Node {
	t.Helper()
	return assert.NoError(html.Parse(strings.NewReader(page)))(t)
}

// elements are those with one of the names, in the order of the page; all without a name.
func elements(root *html.Node, names ...string) []*html.Node {
	var found []*html.Node
	for n := range root.Descendants() {
		if n.Type == html.ElementNode && (len(names) == 0 || slices.Contains(names, n.Data)) {
			found = append(found, n)
		}
	}
	return found
}

func attribute(n *html.Node, key string) string {
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val
		}
	}
	return ""
}

// textOf is the text in an element, with its white space evened out.
func textOf(n *html.Node) string {
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			b.WriteString(d.Data)
		}
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

func textsOf(nodes []*html.Node) []string {
	texts := make([]string, len(nodes))
	for i, n := range nodes {
		texts[i] = textOf(n)
	}
	return texts
}

// sampleResult is a lively day: four policies, an attack after lunch, suggestions for one of them.
func sampleResult() *Result {
	r := &Result{
		Clients: 2_365, ClientsDenied: 61, Step: time.Minute, Unlimited: 3_811, Exempt: 960, Unplayable: 3,
		First: time.Date(2026, 11, 3, 0, 0, 4, 0, time.UTC), Last: time.Date(2026, 11, 3, 23, 59, 51, 0, time.UTC),
		Policies: []PolicyResult{
			{PolicyDescription: display.PolicyDescription{Name: "api", Algorithm: "sliding_window_counter", Limit: 100, Window: display.DurationSeconds(time.Minute), Handlers: []display.Handler{{Key: "{client_ip}"}}}, Clients: 2_290, ClientsDenied: 12},
			{PolicyDescription: display.PolicyDescription{Name: "login", Algorithm: "fixed_window", Limit: 5, Window: display.DurationSeconds(5 * time.Minute), Handlers: []display.Handler{{Key: "{client_ip}"}}}, Clients: 418, ClientsDenied: 49},
			{PolicyDescription: display.PolicyDescription{Name: "search", Algorithm: "gcra", Limit: 30, Window: display.DurationSeconds(time.Minute), Burst: 10, Handlers: []display.Handler{{Key: "{http.request.header.X-Api-Key}", DryRun: true}}}, Clients: 96, EmptyKeys: 1_204},
		},
		Warnings: []string{"The header X-Api-Key is redacted in 1,204 lines, so that their clients share one key."},
		Skipped:  []string{"reverse_proxy", "encode"},
		Log: readReport{
			Files: []fileReport{
				{Name: "access-2026-11-03.log", Format: "Caddy's JSON", Lines: 33_202},
				{Name: "access-2026-11-02.log.gz", Format: "Combined Log Format, gzip", Lines: 2_544, Error: "unexpected end of the compressed data"},
			},
			Lines: 35_746, Malformed: 2, Other: 41, Late: 12, LatestBy: 4 * time.Second,
			MalformedExamples: []accesslog.Skipped{{Where: "access-2026-11-02.log.gz:2544", Reason: "cut off", Text: `192.0.2.9 - - [02/Nov/2026:23:5`}},
		},
	}
	sampleTimelines(r)
	for i := range r.Policies {
		p := &r.Policies[i]
		for n := range min(10, p.ClientsDenied) {
			began := time.Date(2026, 11, 3, 13, 21+n, 7, 0, time.UTC)
			p.Worst = append(p.Worst, clientResult{
				Key: fmt.Sprintf("2001:db8:%x::/64", 0xa1+n*77), Requests: 400, Denied: 90, FirstDenied: began,
				LongestBegan: began.Add(4 * time.Minute), LongestLasted: time.Duration(900-70*n) * time.Second, LongestDenied: 45,
			})
		}
	}
	r.Suggestions = sampleSuggestions(r.Policies[0])
	r.Suggestions.Running = sampleRunning(r.First)
	r.Suggestions.Running.Limits = &Ladder{
		Algorithm: "max_concurrent", Untouched99: 4, Untouched999: 11, Untouched100: 38,
		Limits: []limitResult{{Limit: 1, Denied: 9_000, ClientsDenied: 700}, {Limit: 4, Denied: 1_200, ClientsDenied: 20}, {Limit: 40}},
	}
	r.Policies = append(r.Policies, PolicyResult{PolicyDescription: display.PolicyDescription{Name: "downloads", MaxConcurrent: 20, Handlers: []display.Handler{{Key: "{client_ip}"}}}, Requests: 2_000, Clients: 2_290, Timeline: r.Policies[0].Timeline,
		Units:   &Units{Offered: 6_000, Admitted: 5_400, Denied: 600, Charged: 1_234_567, Refunded: 12},
		Running: sampleRunning(r.First)})
	return r
}

// sampleTimelines fills in the timelines and the sums that follow from them.
func sampleTimelines(r *Result) {
	for minute := range 24 * 60 {
		begins := r.First.Truncate(time.Minute).Add(time.Duration(minute) * time.Minute)
		all := bucket{Begins: begins}
		for i, share := range []float64{20, 2, 3} {
			m := bucket{Begins: begins, Requests: int64(share * (1 + math.Sin(float64(minute)/200)))}
			if i < 2 && minute > 13*60+20 && minute < 14*60+5 {
				m.Denied = int64(20 + minute%40)
			}
			m.Requests += m.Denied
			p := &r.Policies[i]
			p.Timeline = append(p.Timeline, m)
			p.Requests, p.Denied = p.Requests+m.Requests, p.Denied+m.Denied
			all.Requests, all.Denied = all.Requests+m.Requests, all.Denied+m.Denied
		}
		r.Timeline = append(r.Timeline, all)
		r.Requests, r.Denied = r.Requests+all.Requests, r.Denied+all.Denied
		if all.Requests > r.Peak.Requests {
			r.Peak = all
		}
	}
}

// sampleRunning is a day of requests at once with one busy client.
func sampleRunning(first time.Time) *runningResult {
	return &runningResult{
		Requests: 33_000, Untimed: 120, Peak: 38, PeakAt: first.Add(11 * time.Hour), Together: 211, TogetherAt: first.Add(20 * time.Hour),
		Clients: 2_290, Peaks: []peakRate{{From: 1, To: 1, Clients: 1_500}, {From: 2, To: 2, Clients: 700}, {From: 3, To: 20, Clients: 80}, {From: 21, To: 40, Clients: 10}},
		Busiest: []runningClient{{Key: "2001:db8:a1::/64", Requests: 4_000, Peak: 38, PeakAt: first.Add(11 * time.Hour)}, {Key: "192.0.2.1", Requests: 900, Peak: 7, PeakAt: first}},
	}
}

func sampleSuggestions(p PolicyResult) *suggestions {
	s := &suggestions{Policy: p.Name, Key: p.Key(), Window: time.Duration(p.Window), Requests: p.Requests, Clients: p.Clients, OwnLimit: p.Limit}
	for _, name := range []string{"sliding_window_counter", "sliding_window_log", "token_bucket"} {
		l := Ladder{Algorithm: name, Untouched99: 80, Untouched999: 140, Untouched100: 420}
		for limit := int64(5); limit <= 500; limit += max(1, limit/5) {
			left := math.Exp(-float64(limit) / 40)
			l.Limits = append(l.Limits, limitResult{Limit: limit, Denied: int64(float64(p.Requests) * 0.55 * left), ClientsDenied: int(float64(p.Clients) * 0.8 * left)})
		}
		s.Ladders = append(s.Ladders, l)
	}
	return s
}
