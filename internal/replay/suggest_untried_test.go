package replay

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay/accesslog"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/terminal"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

func TestSuggester_NotTried(t *testing.T) {
	none, some := time.Duration(0), 5*time.Second
	for _, tt := range []struct {
		name   string
		policy PolicyResult
		delay  *time.Duration
		want   []string
	}{
		{"a plain policy", PolicyResult{Limit: 5}, nil, nil},
		{"count_if, which is tried", PolicyResult{Limit: 5, CountIf: true}, nil, nil},
		{"a burst that is the limit", PolicyResult{Limit: 5, Burst: 5}, nil, nil},
		{"a cost", PolicyResult{Limit: 5, Cost: "{x}"}, nil, []string{"each limit is tried with the weights; what responses cost ({x}) is left out"}},
		{"a limit for each request", PolicyResult{Limit: 5, LimitFrom: "{x\x1b}"}, nil, []string{`each limit is tried for all requests; the limits that {x\x1b} sets are not`}},
		{"running requests of each request", PolicyResult{MaxConcurrentFrom: "{x}"}, nil, []string{"each limit is tried for all requests; the limits that {x} sets are not"}},
		{"a part of the keys", PolicyResult{Limit: 5, Enforce: new(12.5)}, nil, []string{"each limit is tried for all keys; the policy is enforced for only a part of them"}},
		{"units for others", PolicyResult{Limit: 5, Reserve: "20%"}, nil, []string{"reserve 20% is left out: with it, more requests are denied"}},
		{"a burst", PolicyResult{Limit: 5, Burst: 20}, nil, []string{"buckets are tried with the limit as their burst and without a queue; the policy's own burst 20 is not"}},
		{"a queue and a burst", PolicyResult{Limit: 60, Burst: 20}, &some, []string{"buckets are tried with the limit as their burst and without a queue; the policy's own burst 20 and max_delay 5s are not"}},
		{"a queue of no length", PolicyResult{Limit: 5}, &none, []string{"buckets are tried with the limit as their burst and without a queue; the policy's own max_delay 0s is not"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newTestSuggester(t, limiter.Settings{Algorithm: "leaky_bucket", Limit: 5, MaxDelay: tt.delay, Window: time.Minute}, SuggestOptions{})
			s.leaveOut(&tt.policy)
			got := s.Finish().NotTried
			redistest.ErrorIf(t, !slices.Equal(got, tt.want), "%q, want %q", got, tt.want)
		})
	}
}

func TestSuggester_OwnLimit(t *testing.T) {
	settings := limiter.Settings{Algorithm: counterName, Limit: 77, Window: time.Minute}
	for _, tt := range []struct {
		name    string
		window  time.Duration
		policy  PolicyResult
		decided Decision
		want    int64
	}{
		{"as it is", 0, PolicyResult{Limit: 77}, Decision{Key: "a"}, 77},
		{"the same window, named", time.Minute, PolicyResult{Limit: 77}, Decision{Key: "a"}, 77},
		{"another window", time.Hour, PolicyResult{Limit: 77}, Decision{Key: "a"}, 0},
		{"another key", 0, PolicyResult{Limit: 77}, Decision{Key: "a", SuggestKey: "b"}, 0},
		{"a key that says the same", 0, PolicyResult{Limit: 77}, Decision{Key: "a", SuggestKey: "a"}, 77},
		{"something that is not tried", 0, PolicyResult{Limit: 77, Cost: "response_bytes"}, Decision{Key: "a"}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.decided.Weight = 1
			s := newTestSuggester(t, settings, SuggestOptions{Window: tt.window})
			s.leaveOut(&tt.policy)
			suggest(s, 0, &accesslog.Entry{Time: peakStart}, &Verdict{Decisions: []Decision{tt.decided}})
			r := s.Finish()
			redistest.ErrorIf(t, r.OwnLimit != tt.want, "own limit %d, want %d", r.OwnLimit, tt.want)
			var table strings.Builder
			(&Result{Suggestions: r}).WriteTable(terminal.New(&table))
			for _, sentence := range r.NotTried {
				redistest.ErrorIf(t, !strings.Contains(table.String(), sentence), "the table does not say %q", sentence)
			}
		})
	}
}

func TestRun_suggest_refunds(t *testing.T) {
	s := newTestSuggester(t, limiter.Settings{Algorithm: counterName, Limit: 1, Window: time.Minute}, SuggestOptions{})
	for range 5 {
		suggest(s, 0, &accesslog.Entry{Time: peakStart}, &Verdict{Decisions: []Decision{{Key: "a", Weight: 1, Returned: true}}})
	}
	r := s.Finish()
	redistest.ErrorIf(t, r.Ladders[0].Untouched100 != 1, "%+v", r.Ladders[0])
}
