package report

import (
	"slices"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/humanize"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

func TestWrite_sections(t *testing.T) {
	root := parsed(t, reportOf(t, sampleResult()))
	want := []string{
		"What makes this less than exact", "All requests", "Policy api", "Policy login", "Policy search dry run", "Policy downloads",
		"Other limits on the same traffic", "The log",
	}
	got := textsOf(elements(root, "h2"))
	redistest.ErrorIf(t, !slices.Equal(got, want), "sections are %q, want %q", got, want)
}

func TestWrite_headline(t *testing.T) {
	r := sampleResult()
	r.Requests, r.Denied, r.Clients, r.ClientsDenied = 30_969, 1_234, 2_365, 12
	got := textOf(elements(parsed(t, reportOf(t, r)), "h1")[0])
	want := "Of 30,969 requests of 2,365 clients between 00:00 and 23:59 UTC on 3 November 2026, " +
		"1,234 (4.0 %) would have been refused, 12 clients (0.5 %) affected."
	redistest.ErrorIf(t, got != want, "got  %q\nwant %q", got, want)
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
		redistest.ErrorIf(t, attribute(svg, "role") != "img", "a chart without role img: %v", svg.Attr)
		for _, key := range []string{"aria-labelledby", "aria-describedby"} {
			if ids[attribute(svg, key)] != 1 {
				t.Errorf("%s of a chart is %q, which stands %d times", key, attribute(svg, key), ids[attribute(svg, key)])
			}
		}
	}
	// A timeline of all, four of policies, two curves.
	if charts != 7 {
		t.Errorf("%d charts", charts)
	}
	for _, details := range elements(root, "details") {
		rows := elements(details, "tr")
		redistest.ErrorIf(t, len(rows) < 2 || len(rows) > 1+tableSteps+2, "a table of %d rows behind a chart", len(rows))
	}
	if n := len(elements(root, "details")); n != 7+1 {
		t.Errorf("%d tables behind charts", n)
	}
}

func TestWrite_numbers(t *testing.T) {
	r := sampleResult()
	page := textOf(parsed(t, reportOf(t, r)))
	for _, want := range []string{
		"2001:db8:a1::/64", "100 per minute", "5 per 5 minutes", "{http.request.header.X-Api-Key}",
		"3,811 requests", "access-2026-11-02.log.gz:2544", "limit now: 100", "100 % untouched: 420", "reverse_proxy",
		"12 requests stood too far behind later ones to be sorted, by up to 4 s,", humanize.Count(r.Policies[0].Denied),
	} {
		if !strings.Contains(page, want) && !strings.Contains(page, strings.ReplaceAll(want, " ", noBreak)) {
			t.Errorf("the report does not say %q", want)
		}
	}
}
