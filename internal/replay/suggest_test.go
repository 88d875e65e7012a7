package replay

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/terminal"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

// peakStart is when the requests of tests begin.
const peakStart = int64(1_750_000_000_000_000)

func suggestPolicy(t testing.TB, s limiter.Settings) *limiter.Policy {
	t.Helper()
	s.Name = "p"
	p, err := limiter.NewPolicy(s)
	redistest.Must(t, err)
	return p
}

func newTestSuggester(t testing.TB, s limiter.Settings, o SuggestOptions) *Suggester {
	t.Helper()
	suggester, err := NewSuggester(suggestPolicy(t, s), "{client_ip}", o)
	redistest.Must(t, err)
	return suggester
}

func TestSuggester_untouched(t *testing.T) {
	s := newTestSuggester(t, limiter.Settings{Algorithm: counterName, Limit: 5, Window: time.Minute}, SuggestOptions{})
	for client := range 1000 { // client n asks for n units
		s.Add(fmt.Sprint(client), peakStart, int64(client), false)
	}
	for _, l := range s.Finish().Ladders {
		if l.Untouched99 != 989 || l.Untouched999 != 998 || l.Untouched100 != 999 {
			t.Errorf("%s: %d, %d, %d", l.Algorithm, l.Untouched99, l.Untouched999, l.Untouched100)
		}
	}
}

func TestSuggester_untouched_none(t *testing.T) {
	s := newTestSuggester(t, limiter.Settings{Algorithm: counterName, Limit: 5, Window: time.Minute}, SuggestOptions{})
	s.Add("a", peakStart, 1<<62, false)
	s.Add("a", peakStart, highestLimit, false)
	for _, l := range s.Finish().Ladders {
		if last := l.Limits[len(l.Limits)-1]; l.Untouched100 != 0 || last != (LimitResult{highestLimit, 1, 1}) {
			t.Errorf("%s: %d leaves all untouched, last %+v", l.Algorithm, l.Untouched100, last)
		}
	}
}

func TestSuggester_useful_limits(t *testing.T) {
	s := newTestSuggester(t, limiter.Settings{Algorithm: counterName, Limit: 77, Window: time.Minute}, SuggestOptions{})
	for i := range 20_000 {
		s.Add("busy", peakStart+int64(i), 1, false)
	}
	for _, l := range s.Finish().Ladders {
		own := slices.ContainsFunc(l.Limits, func(r LimitResult) bool { return r.Limit == 77 })
		first, last := l.Limits[0], l.Limits[len(l.Limits)-1]
		if !own || len(l.Limits) > mostLimits || last.Denied != 0 || first.Denied > 19_600 && first.Limit != 77 {
			t.Errorf("%s: %d limits, own %v, from %+v to %+v", l.Algorithm, len(l.Limits), own, first, last)
		}
	}
}

func TestSuggester_without_traffic(t *testing.T) {
	s := newTestSuggester(t, limiter.Settings{Algorithm: "gcra", Limit: 5, Window: time.Minute}, SuggestOptions{})
	r := s.Finish()
	redistest.ErrorIf(t, len(r.Ladders) != 3 || r.Ladders[0].Algorithm != "gcra" || r.Policy != "p" || r.Key != "{client_ip}", "%+v", r)
	for _, l := range r.Ladders {
		redistest.ErrorIf(t, l.Untouched99 != 0 || l.Untouched999 != 0 || l.Untouched100 != 0 || l.Limits == nil || len(l.Limits) != 0, "%+v", l)
	}
	var table strings.Builder
	(&Result{Suggestions: r}).WriteTable(terminal.New(&table))
	text := table.String()
	redistest.ErrorIf(t, !strings.Contains(text, "no request met policy p") || strings.Contains(text, "99 %"), "%v", text)
}

// crowd is a site with many ordinary clients and one that sends nearly all requests.
func crowd(s *Suggester) {
	for client := range 78 {
		for range 1 + client*30/78 {
			s.Add(fmt.Sprint(client), peakStart, 1, false)
		}
	}
	for i := range 100_000 {
		s.Add("bot", peakStart+int64(i)*30_000, 1, false)
	}
}

func TestSuggester_dominant_client(t *testing.T) {
	s := newTestSuggester(t, limiter.Settings{Algorithm: counterName, Limit: 100, Window: time.Minute}, SuggestOptions{})
	crowd(s)
	for _, l := range s.Finish().Ladders {
		first, last := l.Limits[0], l.Limits[len(l.Limits)-1]
		if first.ClientsDenied < 71 || last.Denied != 0 || len(l.Limits) > mostLimits {
			t.Errorf("%s: %d limits, from %+v to %+v", l.Algorithm, len(l.Limits), first, last)
		}
		for i, r := range l.Limits[1:] {
			before := l.Limits[i]
			fall := before.ClientsDenied - r.ClientsDenied
			redistest.ErrorIf(t, fall > 79/4, "%s: from a limit of %d to %d the clients denied fall by %d", l.Algorithm, before.Limit, r.Limit, fall)
			redistest.ErrorIf(t, r.Limit > 4*before.Limit, "%s: no limit between %d and %d", l.Algorithm, before.Limit, r.Limit)
		}
	}
}

func TestSuggester_distant_own_limit(t *testing.T) {
	for _, own := range []int64{3, 1_000_000} {
		s := newTestSuggester(t, limiter.Settings{Algorithm: counterName, Limit: own, Window: time.Minute}, SuggestOptions{})
		for i := range 20_000 {
			s.Add("busy", peakStart+int64(i), 1, false)
		}
		for _, l := range s.Finish().Ladders {
			for i, r := range l.Limits[1:] {
				if before := l.Limits[i]; r.Limit > 4*before.Limit && before.Denied > 0 || len(l.Limits) > mostLimits {
					t.Errorf("%s: own %d, %d limits, none between %d and %d", l.Algorithm, own, len(l.Limits), before.Limit, r.Limit)
				}
			}
			if !slices.ContainsFunc(l.Limits, func(r LimitResult) bool { return r.Limit == own }) {
				t.Errorf("%s: not the policy's own %d", l.Algorithm, own)
			}
		}
	}
}

func TestNewSuggester_errors(t *testing.T) {
	p := suggestPolicy(t, limiter.Settings{Algorithm: counterName, Limit: 5, Window: time.Minute})
	for _, o := range []SuggestOptions{
		{Algorithms: []string{"leaky"}},
		{Window: time.Microsecond},
		{Window: -time.Second},
		{MaxLimit: -1},
		{MaxLimit: highestLimit + 1},
	} {
		_, err := NewSuggester(p, "", o)
		redistest.ErrorIf(t, err == nil, "%+v is not refused", o)
	}
}

func TestLadder_mask(t *testing.T) {
	for _, window := range []time.Duration{time.Millisecond, time.Second, time.Hour, 13 * time.Hour, 13*time.Hour + time.Microsecond, 400 * 24 * time.Hour} {
		for _, highest := range []int64{1, 77, highestLimit - 1, highestLimit} {
			for _, own := range []int64{1, 76, 2_999_998, 1 << 40} {
				l, err := newLadder(window, own, highest)
				redistest.Must(t, err)
				if !slices.IsSorted(l.limits) || l.limits[0] != 1 || l.top() > highest || l.top()*l.window >= 1<<52 {
					t.Errorf("window %v, own %d, highest %d: %v", window, own, highest, l.limits)
				}
			}
		}
	}
}
