package stores

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redis"
)

// Reports collects what a store reports.
type Reports struct {
	mu    sync.Mutex
	lines []string
}

// Add appends a report.
func (r *Reports) Add(line string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, line)
}

// Listen collects the outages of a store, also those that its probes in the background end.
func (r *Reports) Listen(s *redis.Store) {
	s.Topology.Outages.OnOutage = func(err error) { r.Add("outage:" + limiter.Kind(err)) }
	s.Topology.Outages.OnRecovery = func(time.Duration) { r.Add("recovery") }
}

// String returns all reports so far.
func (r *Reports) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.lines, " ")
}

// WaitReported waits until a store has reported this and nothing else.
func WaitReported(t testing.TB, reported *Reports, want string) {
	t.Helper()
	assert.Retry(t, "the store reports "+want, func() (again bool, seen any) {
		got := reported.String()
		return got != want, fmt.Sprintf("it reports %q", got)
	})
}
