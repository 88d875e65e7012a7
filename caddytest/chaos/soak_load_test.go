package chaos

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/dial"
)

// begin starts the load.
func (s *soak) begin(t *testing.T) {
	t.Helper()
	s.start(t, soakClients, assert.Rounds(20*time.Millisecond, 10*time.Millisecond), func(client int) func() {
		return func() {
			s.request(client%len(s.nodes), pick())
			s.turns[client].Add(1)
		}
	})
}

// awaitTurns waits until all requests that are on their way have ended.
func (s *soak) awaitTurns(t *testing.T) {
	t.Helper()
	for i := range s.turns {
		before := s.turns[i].Load()
		assert.Retry(t, "a request ends", func() (again bool, seen any) {
			return s.turns[i].Load() == before, "none has"
		})
	}
}

// request sends one request to a node, unless that is stopped, and notes what came of it.
func (s *soak) request(node int, f *feature) {
	leaving := s.leaving[node].Load()
	n := s.nodes[node].Load()
	if n == nil {
		return
	}
	began := time.Now().Truncate(time.Microsecond)
	response, err := n.Try(http.MethodGet, n.URL+f.target(), "", "X-Began: "+strconv.FormatInt(began.UnixMicro(), 10))
	now := passing{began, time.Now()}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil && (leaving || s.leaving[node].Load() || s.nodes[node].Load() != n) &&
		(errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, io.EOF)) {
		return // of a node that was stopped, or a socket that a reload has closed
	}
	a := s.accounts[f.name]
	a.sent++
	a.slowest = max(a.slowest, response.Took-f.hold)
	switch {
	case err != nil || response.Status == f.never || !answers(f, response.Status):
		if s.wrong++; s.complaint == "" {
			s.complaint = fmt.Sprintf("%s: %v, error %v", f.name, response, err)
		}
	case response.Status == http.StatusTooManyRequests:
		local := strings.HasSuffix(response.Body, " fallback") // such a ban is unknown to Redis
		a.denied = append(a.denied, arrival{passing: now, local: local})
		if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil && !local && response.Header.Get("X-Reason") == "ban" {
			a.banned = append(a.banned, span{now.ended, began.Add(time.Duration(seconds-1) * time.Second)})
		}
	}
}

// answers reports whether a feature has responses of a status.
func answers(f *feature, status int) bool {
	switch status {
	case http.StatusOK, http.StatusTooManyRequests:
		return true
	}
	return f.name == "status" && status == http.StatusUnauthorized
}

// reload loads a configuration that differs from the former one.
func (s *soak) reload(t *testing.T, i int) {
	t.Helper()
	s.leaving[i].Store(true)
	s.rounds++
	s.nodes[i].Load().Reload(t, s.config(s.numbers[i]))
	<-time.After(50 * time.Millisecond) // for requests to the former socket
	s.leaving[i].Store(false)
}

// restart stops a node and starts another one in its place.
func (s *soak) restart(t *testing.T, i int, signal os.Signal) {
	t.Helper()
	s.leaving[i].Store(true)
	n := s.nodes[i].Swap(nil)
	assert.Must(t, n.Command.Process.Signal(signal))
	n.Stop(t)
	s.warnings += warnings(t, n)
	s.startNode(t, i)
}

// warnings counts the warnings and errors of this module in a log.
func warnings(t *testing.T, n *caddytest.Node) int {
	t.Helper()
	lines := n.Log.Lines(func(l caddytest.LogLine) bool { return caddytest.Ours(l) && l.Level != "info" })
	if len(lines) > 0 {
		t.Logf("%d warnings, the last: %s", len(lines), lines[len(lines)-1].Text)
	}
	return len(lines)
}

// check checks what holds for the whole soak.
func (s *soak) check(t *testing.T, stalled time.Duration) {
	t.Helper()
	assert.ErrorIf(t, s.wrong > 0, "%d responses were wrong; the first: %s", s.wrong, s.complaint)
	for i := range s.nodes {
		s.warnings += warnings(t, s.nodes[i].Load())
	}
	// A node warns of decisions, of overrides and of refunds, and of decisions once more where Redis fails again while it heals. One
	// fault alone may show all of them on each node: that of a master that is killed, on a busy machine.
	most := 6*len(s.faults) + 4*len(s.nodes)
	assert.ErrorIf(t, s.warnings > most, "the nodes logged %d warnings for %d faults, want at most %d", s.warnings, len(s.faults), most)
	if !isSoak() {
		return
	}
	if s.full == 0 || s.ran < soakPlaces && s.elsewhere == 0 || s.snapshot(features[0]).leased == 0 {
		t.Errorf("%d windows were full, %d requests ran at once, %d were decided by leases; the soak shows too little",
			s.full, s.ran, s.snapshot(features[0]).leased)
	}
	for _, f := range features {
		slowest := s.snapshot(f).slowest
		assert.ErrorIf(t, slowest > dial.DefaultTimeout+caddytest.Slack+stalled, "%s: the slowest response took %v, the machine stalled for %v", f.name, slowest, stalled)
	}
}

// usage is what a process of Caddy holds.
type usage struct{ goroutines, heap int }

// used returns what the nodes hold.
func (s *soak) used(t *testing.T) (all [3]usage) {
	t.Helper()
	for i := range s.nodes {
		n := s.nodes[i].Load()
		text := n.Send(t, http.MethodGet, n.Admin+"/debug/pprof/heap?debug=1&gc=1", "").Body
		_, rest, _ := strings.Cut(text, "# HeapAlloc = ")
		if _, err := fmt.Sscan(rest, &all[i].heap); err != nil {
			t.Fatal(err)
		}
		all[i].goroutines = n.Goroutines(t)
	}
	return all
}

// checkUsed waits until the nodes hold little more than before.
func (s *soak) checkUsed(t *testing.T, before [3]usage) {
	t.Helper()
	assert.WaitFor(t, "the nodes hold little more than before", func() error {
		now := s.used(t)
		for i := range now {
			if now[i].goroutines > before[i].goroutines+20 || now[i].heap > before[i].heap+32<<20 {
				return fmt.Errorf("node %d: %+v, before %+v", i, now[i], before[i])
			}
		}
		t.Logf("the nodes hold %+v, before %+v", now, before)
		return nil
	})
}
