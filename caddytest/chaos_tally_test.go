package caddytest

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// tally is what a storm has counted.
type tally struct {
	sent, answered, wrong, elsewhere int

	hotRedis, hotLocal int // admissions of the hot key, by who decided
	hotDenied, hotLost int // its denials, and its requests that Redis did not decide
	slowest            time.Duration
	bigSent, bigLost   [bigKeys]int
	complaint          string // the first request that was answered wrongly, or not at all
}

// statuses are those of the answers that may come, by their body.
var statuses = map[string]int{
	"allowed redis":       http.StatusOK,
	"allowed fallback":    http.StatusOK,
	"failed_open redis":   http.StatusOK,
	"failed_closed redis": http.StatusServiceUnavailable,
	"denied redis":        http.StatusTooManyRequests,
	"denied deny_cache":   http.StatusTooManyRequests,
	"denied fallback":     http.StatusTooManyRequests,
}

// add counts a request for a big key, or for the hot one where that is negative.
func (c *tally) add(failMode string, big int, a answer, err error) {
	elsewhere := strings.HasSuffix(a.body, " fallback") || strings.HasPrefix(a.body, "failed_")
	c.sent++
	c.slowest = max(c.slowest, a.took)
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
	c.addHot(a.body, elsewhere)
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

// fits tells whether an answer is one of those that a request may get under a fail mode.
func fits(failMode string, big int, a answer) bool {
	decision, source, _ := strings.Cut(a.body, " ")
	switch {
	case a.status != statuses[a.body]:
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

// promise is what the hot key's admissions are held to.
type promise struct {
	forgotten int  // how many times Redis loses what it has counted
	outage    bool // requests may be decided elsewhere
}

// row is a line of the table.
type row struct {
	tally
	fault, outcome string
	bound          int
}

const header = "fault | requests sent | answered | wrong decisions | decided elsewhere | slowest answer | hot key admitted / bound | as promised"

func (r *row) String() string {
	if r.outcome == "skipped" {
		return r.fault + " | – | – | – | – | – | – | skipped"
	}
	return fmt.Sprintf("%s | %d | %d | %d | %d | %.1f ms | %d / %d | %s", r.fault, r.sent, r.answered, r.wrong, r.elsewhere,
		r.slowest.Seconds()*1000, r.hotRedis+r.hotLocal, r.bound, r.outcome)
}

// locally is how much of the hot key the nodes may admit by themselves in an outage. One that has
// seen a share spent goes on from there.
func (s *storm) locally() int {
	if s.limit == smallLimit {
		return s.early
	}
	return s.limit * len(s.running)
}

// keep checks a storm that is over against what holds for all, and against its own promise.
func (r *row) keep(t *testing.T, s *storm, p promise) {
	t.Helper()
	s.end()
	r.tally = s.now()
	for _, n := range s.running {
		t.Logf("the log tells of %d outages and %d recoveries", len(n.log.outages()), len(n.log.recoveries()))
	}
	onRedis, locally := s.limit*(1+p.forgotten), 0
	if p.outage {
		locally = s.locally()
	}
	r.bound = onRedis + locally
	if r.wrong > 0 || r.answered < r.sent {
		t.Errorf("of %d requests %d were answered, %d were wrong; the first: %s", r.sent, r.answered, r.wrong, r.complaint)
	}
	if r.hotRedis > onRedis || r.hotLocal > locally {
		t.Errorf("of the hot key Redis admitted %d, at most %d were right; the nodes %d by themselves, at most %d",
			r.hotRedis, onRedis, r.hotLocal, locally)
	}
	if !p.outage && r.elsewhere > 0 {
		t.Errorf("%d requests were not decided by Redis; want none\n%v", r.elsewhere, s.running[0].log.lines(ours))
	}
	checkNoneWaits(t, r.slowest, s.stalled())
}
