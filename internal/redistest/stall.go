package redistest

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Stall is a time in which a process waited for a processor.
type Stall struct{ From, To time.Time }

// Stalls are those of one watch, in their order.
type Stalls []Stall

// Longest returns the length of the longest stall, 0 without one.
func (s Stalls) Longest() (longest time.Duration) {
	for _, stall := range s {
		longest = max(longest, stall.To.Sub(stall.From))
	}
	return longest
}

// Before returns the stalls that began before an instant.
func (s Stalls) Before(instant time.Time) (before Stalls) {
	for _, stall := range s {
		if stall.From.Before(instant) {
			before = append(before, stall)
		}
	}
	return before
}

// WatchStalls notes when this process or one of the servers waits for a processor for more than a millisecond, as on a busy
// machine, so that tests of times can leave that out. It notes until the function that it returns is called, or the test ends.
func WatchStalls(t testing.TB, servers ...*Server) (noted func() Stalls) {
	const nap = time.Millisecond
	over, found := make(chan struct{}), make(chan Stalls, 1)
	waited := make([]time.Duration, len(servers))
	for i, s := range servers {
		if s.shared || s.belowShell {
			t.Fatalf("the process of the server at %s is not known", s.Addr)
		}
		waited[i] = s.waited()
	}
	go func() {
		ticker := time.NewTicker(nap)
		defer ticker.Stop()
		var stalls Stalls
		for last := time.Now(); ; {
			select {
			case <-ticker.C:
			case <-over:
				found <- stalls
				return
			}
			now := time.Now()
			worst := now.Sub(last) - nap
			for i, s := range servers {
				before := waited[i]
				waited[i] = s.waited()
				worst = max(worst, waited[i]-before)
			}
			if worst > nap {
				stalls = append(stalls, Stall{now.Add(-worst), now})
			}
			last = now
		}
	}()
	end := sync.OnceValue(func() Stalls {
		close(over)
		return <-found
	})
	t.Cleanup(func() { end() })
	return end
}

// waited returns how long the server's main thread has been ready to run without a processor so far, 0 where the system does
// not tell.
func (s *Server) waited() time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", s.command.Process.Pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text)) // nanoseconds on a processor, and ready to run without one
	if len(fields) < 2 {
		return 0
	}
	nanoseconds, _ := strconv.ParseInt(fields[1], 10, 64) // 0 if it is no number
	return time.Duration(nanoseconds)
}
