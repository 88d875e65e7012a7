package failover

import (
	"context"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// This file shortens the wait of a denied request if requests in flight may end its denial by refunds, which
// reservation.go counts.

const (
	// refundWait is the RetryAfter of such a denial.
	refundWait = time.Second

	// maxCounted is how often a denied request counts what may be refunded, while others pass.
	maxCounted = 4
)

// awaitRefunds has refundable takes of the checks counted once they pass.
func (f *Store) awaitRefunds(checks []limiter.Check, here bool) {
	for i := range checks {
		c := &checks[i]
		if c.State.Owner = nil; !f.awaitsRefunds || !c.Refundable || c.Peek || c.Policy.CountsRunning {
			continue
		}
		r := &reservation{of: &f.reserved, quota: reservedQuota{limiter.QuotaNameOf(c), here}}
		if c.State.Owner = r; !here {
			r.ask()
		}
	}
}

// hasten shortens the wait of denied checks that would pass without what requests in flight may refund. Redis is
// queried until the deadline.
func (f *Store) hasten(ctx context.Context, source limiter.Source, checks []limiter.Check, deadline clock.Moment) {
	for i := range checks {
		c := &checks[i]
		if f.awaitsRefunds && c.Result.RetryAfter > refundWait && !c.Result.Banned && c.Policy.Refunds && f.passesSoon(ctx, source, c, deadline) {
			c.Result.RetryAfter = refundWait
		}
	}
}

// passesSoon reports whether a check would pass now without the units that may be refunded. Where others have
// passed since these were counted, they are counted again.
func (f *Store) passesSoon(ctx context.Context, source limiter.Source, c *limiter.Check, deadline clock.Moment) bool {
	of := reservedQuota{limiter.QuotaNameOf(c), source != limiter.SourceRedis}
	if !of.here {
		bounded, cancel := context.WithTimeout(ctx, deadline.Since(clock.Now()))
		defer cancel()
		ctx = bounded
	}
	known := int64(-1)
	for range maxCounted {
		if f.reserved.awaitAnswers(ctx, of) {
			return false
		}
		units, begun, found := f.reserved.count(of, clock.Now())
		if !found || begun == known {
			return false
		}
		if f.passesWithout(ctx, source, c, units, deadline) {
			return true
		}
		known = begun
	}
	return false
}

// passesWithout reports whether a check would pass now if so many units were not in use: if it left so many less.
func (f *Store) passesWithout(ctx context.Context, source limiter.Source, c *limiter.Check, units int64, deadline clock.Moment) bool {
	peek := limiter.Check{Policy: c.Policy, Key: c.Key, Weight: c.Weight, Reserve: c.Reserve}
	if source == limiter.SourceFallback {
		f.scaleDown(&peek)
	}
	peek.Reserve -= units
	if source != limiter.SourceRedis {
		f.local.Peek(&peek)
		return peek.Result.Passes()
	}
	left := deadline.Since(clock.Now())
	return left > 0 && f.shared.PeekWithin(ctx, &peek, left) == nil && peek.Result.Passes()
}
