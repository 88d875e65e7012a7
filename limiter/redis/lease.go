package redis

import (
	"context"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/decision"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/kernel"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/lease"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/queue"
)

// Lease decides a check and leases units as a question says. Where the caller leaves before the answer, the
// function runs with it when it comes; it must not block nor keep the check.
func (r *Store) Lease(ctx context.Context, check *limiter.Check, q lease.Question, late func(*limiter.Check, kernel.Lease)) (kernel.Lease, error) {
	if !r.Uses.Acquire() {
		return kernel.Lease{}, decision.ErrClosed
	}
	defer r.Uses.Release()
	n, slot := r.NodeOf(check.Key)
	checks := []limiter.Check{*check}
	c := queue.NewLeaseCall(check, q.Wish, q.Rest.Left, q.Rest.Receipt)
	c.Slot = slot
	c.Done = func() {
		if c.Err == nil {
			late(&c.Checks[0], c.Leased())
		}
	}
	if err := n.Decide(ctx, c, checks, r.Timeout); err != nil {
		return kernel.Lease{}, err
	}
	*check = c.Checks[0]
	l := c.Leased()
	c.Recycle()
	return l, nil
}

// LeaseAsync asks a question that no request waits for. An error says that it was not queued. The callback
// runs with the outcome; it must not block nor keep the call.
func (r *Store) LeaseAsync(check *limiter.Check, q lease.Question, done func(*queue.Call)) error {
	if r.closed.Load() {
		return decision.ErrClosed
	}
	n, slot := r.NodeOf(check.Key)
	c := queue.NewLeaseCall(check, q.Wish, q.Rest.Left, q.Rest.Receipt)
	c.Slot = slot
	return n.Background(c, done)
}
