package report

import (
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay"
)

// runningPage is the report on one policy of running requests.
func runningPage(t *testing.T, p replay.PolicyResult, s *replay.Suggestions) string {
	t.Helper()
	at := time.Date(2026, 11, 3, 0, 0, 0, 0, time.UTC)
	r := &replay.Result{Requests: 9, Clients: 2, First: at, Last: at, Policies: []replay.PolicyResult{p}, Suggestions: s}
	return strings.ReplaceAll(textOf(elements(parsed(t, reportOf(t, r)), "main")[0]), noBreak, " ")
}

func TestReport_running(t *testing.T) {
	at := time.Date(2026, 11, 3, 0, 0, 0, 0, time.UTC)
	running := &replay.RunningResult{
		Requests: 9, Untimed: 2, Peak: 5, PeakAt: at, Together: 6, TogetherAt: at, Clients: 2,
		Peaks: []replay.PeakRate{{From: 1, To: 1, Clients: 1}, {From: 4, To: 6, Clients: 1}}, Busiest: []replay.RunningKey{{Key: "a", Requests: 8, Peak: 5, PeakAt: at}},
	}
	p := replay.PolicyResult{Name: "downloads", MaxConcurrent: 3, Key: "{k}", Requests: 9, Clients: 2, Running: running}
	page := runningPage(t, p, nil)
	for _, want := range []string{
		"max_concurrent 3", "one client had at most 5 requests running at once, first at 00:00 UTC on 3 November 2026, and all clients together 6",
		"2 requests without a duration in the log were left out", "4–6150.0 %", "a852026-11-03 00:00:00",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in %s", want, page)
		}
	}
	if strings.Contains(page, "max_concurrent 330 s") || strings.Contains(page, "Units offered") {
		t.Errorf("a window of nothing, or units, in %s", page)
	}

	tried := *running
	tried.Limits = &replay.Ladder{Algorithm: "max_concurrent", Untouched99: 5, Limits: []replay.LimitResult{{Limit: 1, Denied: 5, ClientsDenied: 1}, {Limit: 5}}}
	s := &replay.Suggestions{Policy: "downloads", Key: "{k}", Requests: 9, Clients: 2, Running: &tried}
	page = runningPage(t, p, s)
	if !strings.Contains(page, "limit of requests at once") || strings.Count(page, "had at most 5") != 1 {
		t.Errorf("%d sentences about the peak in %s", strings.Count(page, "had at most 5"), page)
	}
	s.Key = "{other}"
	if page = runningPage(t, p, s); strings.Count(page, "had at most 5") != 2 {
		t.Errorf("the peaks of other keys do not stand in %s", page)
	}
}

func TestReport_units(t *testing.T) {
	p := replay.PolicyResult{Name: "p", Algorithm: "gcra", Limit: 3, Window: time.Minute, Units: &replay.Units{Offered: 6_000, Admitted: 4_500, Denied: 1_500}}
	page := runningPage(t, p, nil)
	if !strings.Contains(page, "Units offered6,000") || !strings.Contains(page, "Units denied1,500 (25.0 %)") || strings.Contains(page, "after responses") {
		t.Error(page)
	}
	p.Units.Refunded = 500
	if page = runningPage(t, p, nil); !strings.Contains(page, "Refunded after responses500") || !strings.Contains(page, "Units used4,000") {
		t.Error(page)
	}
}
