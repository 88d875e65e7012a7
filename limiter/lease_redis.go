package limiter

import (
	"context"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/kernel"
)

// lease decides a check and leases units as a question says. Where the caller leaves before the answer, the
// function runs with it when it comes; it must not block nor keep the check.
func (r *Redis) lease(ctx context.Context, check *Check, q leaseQuestion, late func(*Check, kernel.Lease)) (kernel.Lease, error) {
	if !r.uses.acquire() {
		return kernel.Lease{}, errClosed
	}
	defer r.uses.release()
	n, slot := r.nodeOf(check.Key)
	checks := []Check{*check}
	c := newLeaseCall(check, q.wish, q.rest.left, q.rest.receipt)
	c.slot = slot
	c.done = func() {
		if c.err == nil {
			late(&c.checks[0], c.leased())
		}
	}
	if err := n.decide(ctx, c, checks, r.timeout); err != nil {
		return kernel.Lease{}, err
	}
	*check = c.checks[0]
	l := c.leased()
	c.recycle()
	return l, nil
}

// leaseAsync asks a question that no request waits for. An error says that it was not queued. The callback
// runs with the outcome; it must not block nor keep the call.
func (r *Redis) leaseAsync(check *Check, q leaseQuestion, done func(*call)) error {
	if r.closed.Load() {
		return errClosed
	}
	n, slot := r.nodeOf(check.Key)
	c := newLeaseCall(check, q.wish, q.rest.left, q.rest.receipt)
	c.slot = slot
	return n.background(c, done)
}
