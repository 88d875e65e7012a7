package storepool

import (
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
)

// exit is when requests have to stop waiting because the process ends. The zero value: they have not.
type exit struct{ waitsEnd atomic.Int64 } // a moment; 0: unknown, or never

// answerTime is how long before the end of the servers' grace period waits end, so that the answers are sent.
const answerTime = time.Second

// ServersStop is called as servers begin to shut down, which is after Caddy's shutdown_delay. If the process ends, requests wait
// until [answerTime] before the grace period ends; with a grace period of 0 Caddy waits for all requests, however long they
// take, and so nothing ends them. After a reload they wait on in any case.
func (p *Pool) ServersStop(grace time.Duration) {
	if grace > 0 && caddy.Exiting() {
		p.exit.endWaits(clock.Now().Add(grace - answerTime))
	}
}

// endWaits sets when waits end. The first servers that stop decide.
func (e *exit) endWaits(at clock.Moment) { e.waitsEnd.CompareAndSwap(0, int64(max(1, at))) }

// hasCome reports whether no request may wait any more.
func (e *exit) hasCome() bool {
	end := e.waitsEnd.Load()
	return end != 0 && clock.Now() >= clock.Moment(end)
}
