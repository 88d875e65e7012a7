package report

import (
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay"
)

// pageText is what a reader sees of a report.
func pageText(t *testing.T, r *replay.Result) string {
	t.Helper()
	return strings.ReplaceAll(textOf(parsed(t, reportOf(t, r))), noBreak, " ")
}

func TestWrite_settings(t *testing.T) {
	text := pageText(t, &replay.Result{Policies: []replay.PolicyResult{
		{Name: "dynamic", Algorithm: "gcra", Limit: 5, LimitFrom: "{http.request.header.X-Limit}", Window: time.Minute},
		{Name: "queue", Algorithm: "leaky_bucket", Limit: 60, Burst: 20, MaxDelay: 5 * time.Second, Window: time.Minute},
		{Name: "counts", Algorithm: "fixed_window", Limit: 7, CountIf: true, Cost: "response_bytes", Window: time.Hour},
	}})
	for _, want := range []string{
		"{http.request.header.X-Limit}, else 5, per minute",
		"burst 20, max_delay 5s", "count_if, cost response_bytes",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the report does not say %q", want)
		}
	}
}

func TestWrite_current_limit(t *testing.T) {
	now := "limit now"
	for _, tt := range []struct {
		name   string
		change func(s *replay.Suggestions)
		marked bool
	}{
		{"as it is", func(*replay.Suggestions) {}, true},
		{"another window or key, or something not tried", func(s *replay.Suggestions) { s.OwnLimit = 0 }, false},
		{"other algorithms only", func(s *replay.Suggestions) { s.Ladders = s.Ladders[1:] }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := sampleResult()
			tt.change(r.Suggestions)
			text := pageText(t, r)
			if strings.Contains(text, now) != tt.marked || strings.Contains(text, "Under the limit of now") && !tt.marked {
				t.Errorf("marked %v", strings.Contains(text, now))
			}
		})
	}
}

func TestWrite_NotTried(t *testing.T) {
	r := sampleResult()
	r.Suggestions.NotTried = []string{"what is charged is left out"}
	redistest.ErrorIf(t, !strings.Contains(pageText(t, r), "Not everything is tried: what is charged is left out"), "the report does not say it")
}
