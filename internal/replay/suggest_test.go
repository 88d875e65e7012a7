package replay

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/display"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay/accesslog"
)

// peakStart is when the requests of tests begin.
const peakStart = int64(1_750_000_000_000_000)

func suggestPolicy(t testing.TB, s limiter.Settings) *limiter.Policy {
	t.Helper()
	s.Name = "p"
	return assert.NoError(limiter.NewPolicy(s))(t)
}

func newTestSuggester(t testing.TB, s limiter.Settings, algorithms ...string) *Suggester {
	t.Helper()
	return assert.NoError(NewSuggester(suggestPolicy(t, s), "{client_ip}", algorithms))(t)
}

// finish returns what a suggester finds.
func finish(t testing.TB, s *Suggester) *suggestions {
	t.Helper()
	return assert.NoError(s.finish())(t)
}

func TestSuggester_untouched(t *testing.T) {
	s := newTestSuggester(t, limiter.Settings{Algorithm: counterName, Limit: 5, Window: time.Minute})
	for client := range 1000 { // client n asks for n units
		s.add(fmt.Sprint(client), peakStart, 0, int64(client), kept)
	}
	for _, l := range finish(t, s).Ladders {
		assert.ErrorIf(t, l.Untouched99 != 989 || l.Untouched999 != 998 || l.Untouched100 != 999,
			"%s: %d, %d, %d", l.Algorithm, l.Untouched99, l.Untouched999, l.Untouched100)
	}
}

func TestSuggester_untouched_none(t *testing.T) {
	s := newTestSuggester(t, limiter.Settings{Algorithm: counterName, Limit: 5, Window: time.Minute})
	s.add("a", peakStart, 0, 1<<62, kept)
	s.add("a", peakStart, 0, highestLimit, kept)
	for _, l := range finish(t, s).Ladders {
		if last := l.Limits[len(l.Limits)-1]; l.Untouched100 != 0 || last != (limitResult{highestLimit, 1, 1}) {
			t.Errorf("%s: %d leaves all untouched, last %+v", l.Algorithm, l.Untouched100, last)
		}
	}
}

func TestSuggester_without_traffic(t *testing.T) {
	s := newTestSuggester(t, limiter.Settings{Algorithm: "gcra", Limit: 5, Window: time.Minute})
	r := finish(t, s)
	assert.ErrorIf(t, len(r.Ladders) != 3 || r.Ladders[0].Algorithm != "gcra" || r.Policy != "p" || r.Key != "{client_ip}", "%+v", r)
	for _, l := range r.Ladders {
		assert.ErrorIf(t, l.Untouched99 != 0 || l.Untouched999 != 0 || l.Untouched100 != 0 || l.Limits == nil || len(l.Limits) != 0, "%+v", l)
	}
	text := tableSays(t, &Result{Suggestions: r}, "no request met policy p")
	assert.ErrorIf(t, strings.Contains(text, "99 %"), "%v", text)
}

// TestSuggester_dominant_client has a site with many ordinary clients and one that sends nearly all requests.
func TestSuggester_dominant_client(t *testing.T) {
	s := newTestSuggester(t, limiter.Settings{Algorithm: counterName, Limit: 100, Window: time.Minute})
	for client := range 78 {
		for range 1 + client*30/78 {
			s.add(fmt.Sprint(client), peakStart, 0, 1, kept)
		}
	}
	for i := range 100_000 {
		s.add("bot", peakStart+int64(i)*30_000, 0, 1, kept)
	}
	for _, l := range finish(t, s).Ladders {
		first, last := l.Limits[0], l.Limits[len(l.Limits)-1]
		assert.ErrorIf(t, first.ClientsDenied < 71 || last.Denied != 0 || len(l.Limits) > mostLimits,
			"%s: %d limits, from %+v to %+v", l.Algorithm, len(l.Limits), first, last)
		for i, r := range l.Limits[1:] {
			before := l.Limits[i]
			fall := before.ClientsDenied - r.ClientsDenied
			assert.ErrorIf(t, fall > 79/4, "%s: from a limit of %d to %d the clients denied fall by %d", l.Algorithm, before.Limit, r.Limit, fall)
			assert.ErrorIf(t, r.Limit > 4*before.Limit, "%s: no limit between %d and %d", l.Algorithm, before.Limit, r.Limit)
		}
	}
}

func TestSuggester_useful_limits(t *testing.T) {
	for _, own := range []int64{3, 77, 1_000_000} {
		s := newTestSuggester(t, limiter.Settings{Algorithm: counterName, Limit: own, Window: time.Minute})
		for i := range 20_000 {
			s.add("busy", peakStart+int64(i), 0, 1, kept)
		}
		for _, l := range finish(t, s).Ladders {
			first, last := l.Limits[0], l.Limits[len(l.Limits)-1]
			assert.ErrorIf(t, len(l.Limits) > mostLimits || last.Denied != 0 || first.Denied > 19_600 && first.Limit != own,
				"%s: own %d, %d limits from %+v to %+v", l.Algorithm, own, len(l.Limits), first, last)
			for i, r := range l.Limits[1:] {
				before := l.Limits[i]
				assert.ErrorIf(t, r.Limit > 4*before.Limit && before.Denied > 0, "%s: own %d, none between %d and %d", l.Algorithm, own, before.Limit, r.Limit)
			}
			assert.ErrorIf(t, !slices.ContainsFunc(l.Limits, func(r limitResult) bool { return r.Limit == own }),
				"%s: not the policy's own %d", l.Algorithm, own)
		}
	}
}

func TestNewSuggester_errors(t *testing.T) {
	for _, tt := range []struct {
		policy          limiter.Settings
		algorithm, want string
	}{
		{limiter.Settings{Limit: 5, Window: time.Minute}, "leaky", `algorithm "leaky": use one of`},
		{limiter.Settings{Limit: 5, Calendar: "day"}, "gcra", "algorithm gcra: calendar periods are counted by fixed_window alone; leave the algorithm out"},
		{limiter.Settings{MaxConcurrent: 5}, "gcra", "algorithm gcra: it counts in a window, which policy p does not have"},
	} {
		_, err := NewSuggester(suggestPolicy(t, tt.policy), "", []string{tt.algorithm})
		assert.ErrorIf(t, err == nil || !strings.HasPrefix(err.Error(), tt.want), "%v, want %s", err, tt.want)
	}
}

// TestNewLadder wants ladders whose limits all algorithms of the limiter accept.
func TestNewLadder(t *testing.T) {
	for _, window := range []time.Duration{time.Millisecond, time.Second, time.Hour, 13 * time.Hour, 13*time.Hour + time.Microsecond, 400 * 24 * time.Hour} {
		for _, highest := range []int64{1, 77, highestLimit - 1, highestLimit} {
			for _, own := range []int64{1, 76, 2_999_998, 1 << 40} {
				limits := assert.NoError(newLadder(window, own, highest))(t)
				top := limits[len(limits)-1]
				assert.ErrorIf(t, !slices.IsSorted(limits) || limits[0] != 1 || top > highest, "window %v, own %d, highest %d: %v", window, own, highest, limits)
				for _, algorithm := range limiter.Algorithms() {
					trial := newTrial(limiter.Settings{Name: "p", Window: window}, algorithm, newSample())
					_, err := trial.policy(top)
					assert.ErrorIf(t, err != nil, "window %v, %s, %d: %v", window, algorithm, top, err)
				}
			}
		}
	}
}

func TestSuggester_NotTried(t *testing.T) {
	none, some := time.Duration(0), 5*time.Second
	for _, tt := range []struct {
		name   string
		policy PolicyResult
		delay  *time.Duration
		want   []string
	}{
		{"a plain policy", PolicyResult{PolicyDescription: display.PolicyDescription{Limit: 5}}, nil, nil},
		{"count_if, which is tried", PolicyResult{PolicyDescription: display.PolicyDescription{Limit: 5, Handlers: []display.Handler{{CountIf: "status 401"}}}}, nil, nil},
		{"a burst that is the limit", PolicyResult{PolicyDescription: display.PolicyDescription{Limit: 5, Burst: 5}}, nil, nil},
		{"a cost", PolicyResult{PolicyDescription: display.PolicyDescription{Limit: 5, Handlers: []display.Handler{{Cost: "{x}"}}}}, nil, []string{"each limit is tried with the weights; what responses cost ({x}) is left out"}},
		{"a limit for each request", PolicyResult{PolicyDescription: display.PolicyDescription{Limit: 5, LimitFrom: "{x\x1b}"}}, nil, []string{`each limit is tried for all requests; the limits that {x\x1b} sets are not`}},
		{"running requests of each request", PolicyResult{PolicyDescription: display.PolicyDescription{MaxConcurrentFrom: "{x}"}}, nil, []string{"each limit is tried for all requests; the limits that {x} sets are not"}},
		{"a part of the keys", PolicyResult{PolicyDescription: display.PolicyDescription{Limit: 5, Handlers: []display.Handler{{Enforce: new(12.5)}}}}, nil, []string{"each limit is tried for all keys; the policy is enforced for only a part of them"}},
		{"units for others", PolicyResult{PolicyDescription: display.PolicyDescription{Limit: 5, Handlers: []display.Handler{{Reserve: "20%"}}}}, nil, []string{"reserve 20% is left out: with it, more requests are denied"}},
		{"a burst", PolicyResult{PolicyDescription: display.PolicyDescription{Limit: 5, Burst: 20}}, nil, []string{"buckets are tried with the limit as their burst and without a queue; the policy's own burst 20 is not"}},
		{"a queue and a burst", PolicyResult{PolicyDescription: display.PolicyDescription{Limit: 60, Burst: 20}}, &some, []string{"buckets are tried with the limit as their burst and without a queue; the policy's own burst 20 and max_delay 5s are not"}},
		{"a queue of no length", PolicyResult{PolicyDescription: display.PolicyDescription{Limit: 5}}, &none, []string{"buckets are tried with the limit as their burst and without a queue; the policy's own max_delay 0s is not"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newTestSuggester(t, limiter.Settings{Algorithm: "leaky_bucket", Limit: 5, MaxDelay: tt.delay, Window: time.Minute}, "leaky_bucket")
			tt.policy.MaxDelay = (*display.DurationSeconds)(tt.delay)
			s.leaveOut(&tt.policy)
			s.add("a", peakStart, 0, 1, kept)
			r := finish(t, s)
			assert.ErrorIf(t, !slices.Equal(r.NotTried, tt.want) || (r.OwnLimit == 5) != (tt.want == nil), "own limit %d, %q, want %q", r.OwnLimit, r.NotTried, tt.want)
			tableSays(t, &Result{Suggestions: r}, tt.want...)
		})
	}
}

func TestRun_suggest_refunds(t *testing.T) {
	s := newTestSuggester(t, limiter.Settings{Algorithm: counterName, Limit: 1, Window: time.Minute, Refunds: true})
	for range 5 {
		suggest(s, &accesslog.Entry{Time: peakStart}, &Decision{Policies: []PolicyDecision{{Key: "a", Weight: 1, Returned: true}}})
	}
	r := finish(t, s)
	assert.ErrorIf(t, r.Ladders[0].Untouched100 != 1, "%+v", r.Ladders[0])
}
