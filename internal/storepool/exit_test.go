package storepool

import (
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
)

// TestExit_hasCome ends waits at the moment that the first servers have set, and none while the process goes on.
func TestExit_hasCome(t *testing.T) {
	var e exit
	assert.ErrorIf(t, e.hasCome(), "waits end before anything has set when")
	e.endWaits(clock.Now().Add(time.Hour))
	e.endWaits(clock.Now().Add(-time.Hour)) // of other servers
	assert.ErrorIf(t, e.hasCome(), "waits end before their moment")
	var short exit
	short.endWaits(clock.Now().Add(-time.Hour))
	assert.ErrorIf(t, !short.hasCome(), "waits go on where the grace period is too short for more")
	p := NewPool(nil, Metrics{}, nil)
	p.ServersStop(time.Millisecond) // by a reload
	assert.ErrorIf(t, p.exit.hasCome(), "a reload ends waits")
}
