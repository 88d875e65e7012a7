package gate

import (
	"context"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
)

// statusClientGone is what servers log for a client that left before its answer.
const statusClientGone = 499

// hold lets a time pass, or refuses the request of a context once its client has left.
func hold(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return rule.Refuse(statusClientGone, ctx.Err())
	}
}
