package redis

import (
	"context"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/kernel"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/lease"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// Lease decides a check and leases units as a question says. Where the caller leaves before the answer, the
// function runs with it when it comes; it must not block nor keep the check.
func (r *Store) Lease(
	ctx context.Context, check *limiter.Check, q lease.Question, late func(*limiter.Check, kernel.Lease),
) (kernel.Lease, error) {
	if !r.Uses.Acquire() {
		return kernel.Lease{}, limiter.ErrClosed
	}
	defer r.Uses.Release()
	n, slot := r.NodeOf(check.Key)
	checks := []limiter.Check{*check}
	c := NewTakeAhead(check, q.Wish, q.Rest.Left, q.Rest.Receipt)
	c.Slot = slot
	c.Done = func(e Ended) {
		if p := e.Answer(); p != nil {
			late(&p.Checks[0], p.Lease.Got)
		}
	}
	if err := n.Decide(ctx, c, checks, r.Timeout); err != nil {
		return kernel.Lease{}, err
	}
	*check = c.Checks[0]
	l := c.Lease.Got
	c.Recycle()
	return l, nil
}

// LeaseAsync asks a question that no request waits for. The callback runs with the outcome, perhaps at once; it must
// not block nor keep what it gets.
func (r *Store) LeaseAsync(check *limiter.Check, q lease.Question, done func(Ended)) {
	c := NewTakeAhead(check, q.Wish, q.Rest.Left, q.Rest.Receipt)
	if r.closed.Load() {
		c.detach(done)
		c.end(limiter.ErrClosed)
		return
	}
	n, slot := r.NodeOf(check.Key)
	c.Slot = slot
	n.Background(c, done)
}
