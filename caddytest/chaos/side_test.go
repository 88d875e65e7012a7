package chaos

import (
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// side is the requests of one policy: those beyond its limit are refused, or they wait.
type side struct {
	crowd *crowd
	name  string // of the policy, and of the path
	waits bool

	mu            sync.Mutex
	sent, passed  int
	open          int // that have been sent and are not answered
	held          int // that run until the end
	running, most int // at the backend; most: since the last look
	worst         int // that ran at once at any time
	changed       time.Time
	reached       chan struct{} // closed as soon as as many run as may
	above         time.Duration // the time in which more than the limit ran
	times         int           // how many times more began to run
	free          time.Duration // the longest time since the last look in which a place was free, and a request waited
	freeFor       time.Duration // so far
	longestFree   time.Duration // while nothing was broken
}

func newSide(c *crowd, name string, waits bool) *side {
	return &side{crowd: c, name: name, waits: waits, changed: time.Now(), reached: make(chan struct{})}
}

const sideHeader = "most at once / limit | above the limit"

// String returns the columns of a table that both sides have.
func (s *side) String() string {
	return fmt.Sprintf("%d / %d | %d times, %d ms", s.worst, s.crowd.limit, s.times, s.above.Milliseconds())
}

// options returns lines of the side's policy.
func (s *side) options() string {
	if s.waits {
		return "wait 1m 1000\n"
	}
	return ""
}

// clients returns how many clients of a node the side has.
func (s *side) clients(waiting int) int {
	if s.waits {
		return waiting
	}
	return min(crowdRefused*waiting, max(waiting, 70)) // 200 alone keep the machine busy
}

// serve runs a request at the backend.
func (s *side) serve(w http.ResponseWriter, r *http.Request) {
	s.count(1)
	defer s.count(-1)
	if r.URL.Query().Has("held") {
		s.hold(1)
		defer s.hold(-1)
		select {
		case <-s.crowd.over:
		case <-r.Context().Done():
		}
		return
	}
	<-time.After(crowdRun)
	s.awaitOthers(r)
	_, _ = io.WriteString(w, "ran")
}

// awaitOthers keeps a request until as many run as may, where a busy machine needs longer than [crowdRun] to bring them
// to the backend.
func (s *side) awaitOthers(r *http.Request) {
	s.mu.Lock()
	reached := s.reached
	full := s.running >= s.crowd.limit
	s.mu.Unlock()
	if isLong() || full {
		return
	}
	select {
	case <-reached:
	case <-s.crowd.over:
	case <-r.Context().Done():
	}
}

// change counts what has passed since the last change, and then changes what is counted.
func (s *side) change(by func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	since := now.Sub(s.changed)
	s.changed = now
	if s.running > s.crowd.limit {
		s.above += since
	}
	if s.running < s.crowd.limit && s.open > s.running {
		s.freeFor += since
		s.free = max(s.free, s.freeFor)
	}
	wasAbove := s.running > s.crowd.limit
	by()
	if s.running > s.crowd.limit && !wasAbove {
		s.times++
	}
	if s.running >= s.crowd.limit || s.open <= s.running {
		s.freeFor = 0
	}
}

// count counts what runs at the backend.
func (s *side) count(more int) {
	s.change(func() {
		s.running += more
		s.most = max(s.most, s.running)
		if more > 0 && s.running >= s.crowd.limit {
			close(s.reached)
			s.reached = make(chan struct{})
		}
	})
}

func (s *side) hold(more int) { s.change(func() { s.held += more }) }

// holds returns how many requests run until the end.
func (s *side) holds() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held
}

// look returns the most requests that ran at once since the last look, and the longest time in which a place was free
// beside a waiting request.
func (s *side) look() (most int, free time.Duration) {
	s.change(func() {
		most, free = s.most, s.free
		s.most, s.worst = s.running, max(s.worst, most)
		s.free, s.freeFor = 0, 0
	})
	return most, free
}

// try sends a request of a client to a node.
func (s *side) try(n *caddytest.Node, query string) (caddytest.Response, error) {
	s.change(func() { s.sent++; s.open++ })
	a, err := n.Try(http.MethodGet, n.URL+"/"+s.name+query, "")
	s.change(func() {
		s.open--
		if err == nil && a.Status == http.StatusOK {
			s.passed++
		}
	})
	return a, err
}

// holdOne has a request run until the end. A busy Redis may not have decided in time that it runs.
func (s *side) holdOne(n *caddytest.Node) {
	for {
		a, err := s.try(n, "?held")
		if err != nil || a.Status == http.StatusOK { // a killed node ends it
			return
		}
		select {
		case <-s.crowd.over:
			return
		case <-time.After(s.crowd.pause):
		}
	}
}

// ask sends requests, one after the other.
func (s *side) ask(n *caddytest.Node) {
	for {
		a, err := s.try(n, "")
		pause := s.crowd.pause
		if err == nil && a.Status == http.StatusOK {
			pause = 0
		}
		select {
		case <-s.crowd.over:
			return
		case <-time.After(pause):
		}
	}
}

// awaitFull waits until as many requests as allowed run at once and not more, since an instant, and returns how long that
// took. At most so many may run meanwhile.
func (s *side) awaitFull(t *testing.T, since time.Time, bound int) time.Duration {
	t.Helper()
	for {
		<-time.After(crowdLook)
		most, _ := s.look()
		assert.FatalIf(t, most > bound, "%s: %d requests ran at once, at most %d may", s.name, most, bound)
		took := time.Since(since)
		if most == s.crowd.limit {
			return took
		}
		assert.FatalIf(t, isLong() && took > s.crowd.timeout*4/3+10*crowdLook || took > time.Minute,
			"%s: %d requests run at once after %v, want %d", s.name, most, took, s.crowd.limit)
	}
}

// checkStaysFull checks that as many requests as allowed run at once, and not more.
func (s *side) checkStaysFull(t *testing.T) {
	t.Helper()
	most := 0
	for looks := 1; looks <= lasting(4, 2) || most < s.crowd.limit && !isLong() && looks <= 120; looks++ {
		<-time.After(crowdLook)
		now, free := s.look()
		most, s.longestFree = max(most, now), max(s.longestFree, free)
	}
	assert.ErrorIf(t, most != s.crowd.limit, "%s: %d requests run at once afterwards, want %d", s.name, most, s.crowd.limit)
}
