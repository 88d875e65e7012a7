package redisratelimit

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

// maxHeld is how many requests this process holds at a time for max_delay. Each keeps a connection
// and some memory; more than that are refused.
const maxHeld = 65536

// held counts the requests that are held now.
var held atomic.Int64

// longestDelay is how long queues want an allowed request held.
func longestDelay(checks []limiter.Check) (delay time.Duration) {
	for i := range checks {
		delay = max(delay, checks[i].Result.Delay)
	}
	return delay
}

// hold waits until it is the request's turn. It is false where too many wait already. A client that
// leaves meanwhile frees its place; the error is that of its context.
func hold(ctx context.Context, delay time.Duration) (bool, error) {
	if delay == 0 {
		return true, nil
	}
	defer held.Add(-1)
	if held.Add(1) > maxHeld {
		return false, nil
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true, nil
	case <-ctx.Done():
		return true, ctx.Err()
	}
}
