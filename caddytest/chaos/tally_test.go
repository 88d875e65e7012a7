package chaos

import (
	"fmt"
	"net/http"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// tally holds the counts of a storm.
type tally struct {
	sent, answered, wrong, elsewhere int

	hotRedis, hotLocal int // admissions of the hot key, by source
	hotDenied, hotLost int // its denials, and its requests without a decision by Redis
	slowest            time.Duration
	bigSent, bigLost   [bigKeys]int
	complaint          string // the first request with a wrong response or none
}

// statuses are the statuses of permitted responses, by their body.
var statuses = map[string]int{
	"allowed redis":       http.StatusOK,
	"allowed fallback":    http.StatusOK,
	"failed_open redis":   http.StatusOK,
	"failed_closed redis": http.StatusServiceUnavailable,
	"denied redis":        http.StatusTooManyRequests,
	"denied deny_cache":   http.StatusTooManyRequests,
	"denied fallback":     http.StatusTooManyRequests,
}

// add counts a request of a big key, or of the hot one where big is negative.
func (c *tally) add(failMode string, big int, a caddytest.Response, err error) {
	elsewhere := strings.HasSuffix(a.Body, " fallback") || strings.HasPrefix(a.Body, "failed_")
	c.sent++
	c.slowest = max(c.slowest, a.Took)
	if err == nil {
		c.answered++
	}
	if err != nil || !fits(failMode, big, a) {
		c.wrong++
	}
	if elsewhere {
		c.elsewhere++
	}
	if big >= 0 {
		c.bigSent[big]++
		if elsewhere {
			c.bigLost[big]++
		}
		return
	}
	c.addHot(a.Body, elsewhere)
}

func (c *tally) addHot(body string, elsewhere bool) {
	if elsewhere {
		c.hotLost++
	}
	switch body {
	case "allowed redis":
		c.hotRedis++
	case "allowed fallback":
		c.hotLocal++
	case "denied redis", "denied deny_cache", "denied fallback":
		c.hotDenied++
	}
}

// fits reports whether a fail mode permits the response.
func fits(failMode string, big int, a caddytest.Response) bool {
	decision, source, _ := strings.Cut(a.Body, " ")
	switch {
	case a.Status != statuses[a.Body]:
		return false
	case decision == "denied" && big >= 0:
		return false
	case source == "fallback":
		return failMode == "local"
	case strings.HasPrefix(decision, "failed_"):
		return decision == "failed_"+failMode
	}
	return true
}

// properties bound the hot key's admissions.
type properties struct {
	forgotten int  // how many times Redis loses its counts
	outage    bool // requests may be decided elsewhere
}

// row is a line of the table.
type row struct {
	tally
	bound int
}

const header = "fault | requests sent | answered | wrong decisions | decided elsewhere | slowest response | hot key admitted / bound"

func (r *row) String() string {
	return fmt.Sprintf("%d | %d | %d | %d | %.1f ms | %d / %d", r.sent, r.answered, r.wrong, r.elsewhere,
		r.slowest.Seconds()*1000, r.hotRedis+r.hotLocal, r.bound)
}

// locally returns how many requests of the hot key the nodes may admit themselves in an outage. A node
// goes on from the last state that Redis reported.
func (s *storm) locally() int {
	if s.limit == smallLimit {
		return s.early
	}
	return s.limit * len(s.running)
}

// check ends a storm and checks the properties of all storms and its own.
func (r *row) check(t *testing.T, s *storm, p properties) {
	t.Helper()
	s.end()
	r.tally = s.now()
	for _, n := range s.running {
		t.Logf("the log has %d outages and %d recoveries", len(n.Log.Outages()), len(n.Log.Recoveries()))
	}
	onRedis, locally := s.limit*(1+p.forgotten), 0
	if p.outage {
		locally = s.locally()
	}
	r.bound = onRedis + locally
	assert.ErrorIf(t, r.wrong > 0 || r.answered < r.sent, "of %d requests %d were answered, %d were wrong; the first: %s", r.sent, r.answered, r.wrong, r.complaint)
	if r.hotRedis > onRedis || r.hotLocal > locally {
		t.Errorf("of the hot key Redis admitted %d, at most %d were right; the nodes %d by themselves, at most %d",
			r.hotRedis, onRedis, r.hotLocal, locally)
	}
	if !p.outage && r.elsewhere > 0 {
		t.Errorf("%d requests were not decided by Redis; want none\n%v", r.elsewhere, s.running[0].Log.Lines(caddytest.Ours))
	}
	checkNoneWaits(t, r.slowest, s.stalled())
}

// passing is an admitted request: it was decided between two instants, on the clock that Redis has too.
type passing struct{ began, ended time.Time }

// rule is how much may pass of a quota in a span of time. A bucket lets its burst through at once, a window its limit.
type rule struct {
	algorithm    string
	limit, burst int
	window       time.Duration
}

// worst returns the most units that have certainly passed in a span, and how many may. Where spans have several
// bounds it is the one with the least room left.
func (r rule) worst(passed []passing) (most, bound int) {
	slices.SortFunc(passed, func(a, b passing) int { return a.began.Compare(b.began) })
	most, bound = 0, r.limit
	keep := func(units, limit int) {
		if units-limit > most-bound {
			most, bound = units, limit
		}
	}
	switch r.algorithm {
	case "fixed_window", "sliding_window_counter":
		windows := map[int64]int{}
		for _, p := range passed {
			if w := p.began.UnixMicro() / r.window.Microseconds(); w == p.ended.UnixMicro()/r.window.Microseconds() {
				windows[w]++
			}
		}
		for w, units := range windows {
			keep(units, r.limit)
			if r.algorithm == "sliding_window_counter" {
				r.estimates(passed, w, windows[w-1], keep)
			}
		}
	case "sliding_window_log":
		for i := range passed {
			keep(within(passed, i, passed[i].began.Add(r.window)), r.limit)
		}
	default:
		for i := 0; i < len(passed); i += 8 {
			for span := r.window / 64; span <= 2*r.window; span += r.window / 64 {
				drained := int(time.Duration(r.limit)*span/r.window) + 1
				keep(within(passed, i, passed[i].began.Add(span)), r.burst+drained)
			}
		}
	}
	return most, bound
}

// within returns how many requests from the i-th on began and ended before an instant.
func within(passed []passing, i int, before time.Time) (units int) {
	last := i + sort.Search(len(passed)-i, func(j int) bool { return !passed[i+j].began.Before(before) })
	for _, p := range passed[i:last] {
		if p.ended.Before(before) {
			units++
		}
	}
	return units
}

// estimates compares the units of a window, request by request, with the estimate of the window before.
func (r rule) estimates(passed []passing, w int64, previous int, keep func(units, limit int)) {
	window := r.window.Microseconds()
	var ends []int64
	for _, p := range passed {
		if p.began.UnixMicro()/window == w && p.ended.UnixMicro()/window == w {
			ends = append(ends, p.ended.UnixMicro())
		}
	}
	slices.Sort(ends)
	for _, p := range passed {
		began, ended := p.began.UnixMicro(), p.ended.UnixMicro()
		if began/window != w || ended/window != w {
			continue
		}
		before := sort.Search(len(ends), func(i int) bool { return ends[i] > began })
		left := (w+1)*window - ended
		keep(before+1+int(int64(previous)*left/window), r.limit)
	}
}
