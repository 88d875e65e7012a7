package report

import (
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay"
)

func TestWrite_empty_results(t *testing.T) {
	moment := time.Date(2026, 11, 3, 14, 5, 7, 0, time.UTC)
	one := replay.Result{Requests: 1, Clients: 1, First: moment, Last: moment, Step: time.Minute, Timeline: []replay.Bucket{{Begins: moment.Truncate(time.Minute), Requests: 1}}}
	denied := one
	denied.Denied = 1
	idle := replay.PolicyResult{Name: "idle", Algorithm: "gcra", Limit: 5, Window: time.Minute}
	quiet := replay.PolicyResult{Name: "quiet", Limit: 5, Window: time.Minute, Requests: 1, Clients: 1, Timeline: one.Timeline}
	for _, tt := range []struct {
		name   string
		result replay.Result
		want   string
	}{
		{"nothing at all", replay.Result{}, "There was no request to play"},
		{"one request", one, "Of 1 request of 1 client between 14:05 and 14:05 UTC on 3 November 2026, none would have been refused."},
		{"one request denied", denied, "1 (100 %) would have been refused"},
		{"a policy without requests", with(one, idle), "No request met this policy."},
		{"no denial", with(one, quiet), "It would have refused none of them."},
		{"a timeline without a step", replay.Result{Requests: 1, Timeline: one.Timeline}, "requests per minute"},
		{"suggestions without traffic", suggesting(one, replay.Suggestions{Policy: "idle", Ladders: []replay.Ladder{{Limits: []replay.LimitResult{}}}}), "No request met policy idle, so there was nothing to try other limits on."},
		{"suggestions without limits", suggesting(one, replay.Suggestions{Requests: 1, Ladders: make([]replay.Ladder, 2)}), "Algorithms compared"},
		{"one limit only", suggesting(one, replay.Suggestions{Requests: 1, Clients: 1, Ladders: []replay.Ladder{{Limits: []replay.LimitResult{{Limit: 7}}}}}), "limit per"},
		{"limits that deny nothing", suggesting(one, replay.Suggestions{Requests: 1, Ladders: []replay.Ladder{{Limits: []replay.LimitResult{{Limit: 1}, {Limit: 2}}}}}), "limit per"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			page := reportOf(t, &tt.result)
			text := strings.ReplaceAll(textOf(parsed(t, page)), noBreak, " ")
			redistest.ErrorIf(t, !strings.Contains(text, tt.want), "the report does not say %q", tt.want)
			for _, garbage := range []string{"NaN", "Inf", "%!", "<nil>", "0001-01-01"} {
				redistest.ErrorIf(t, strings.Contains(page, garbage), "the report says %q", garbage)
			}
		})
	}
}

func with(r replay.Result, p replay.PolicyResult) replay.Result {
	r.Policies = []replay.PolicyResult{p}
	return r
}

func suggesting(r replay.Result, s replay.Suggestions) replay.Result {
	r.Suggestions = &s
	return r
}

func TestWrite_size_of_long_logs(t *testing.T) {
	r := sampleResult()
	r.Timeline = []replay.Bucket{
		{Begins: time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC), Requests: 1},
		{Begins: time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC), Requests: 1},
		{Begins: time.Date(2026, 11, 3, 0, 0, 0, 0, time.UTC), Requests: 1, Denied: 1},
		{Begins: time.Date(9999, 12, 31, 23, 59, 0, 0, time.UTC), Requests: 1},
	}
	page := reportOf(t, r)
	redistest.ErrorIf(t, len(page) > 300_000 || strings.Contains(page, "NaN"), "%d bytes", len(page))
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
		if requests != r.Requests || len(thin) > max(most+1, 2) {
			t.Errorf("at most %d: %d steps with %d requests, want %d requests", most, len(thin), requests, r.Requests)
		}
	}
}
