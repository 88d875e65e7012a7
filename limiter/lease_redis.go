package limiter

import (
	"context"
	"fmt"
)

// lease decides a check and leases units as a question says. Where the caller leaves before the answer, the
// function runs with it when it comes; it must not block nor keep the check.
func (r *Redis) lease(ctx context.Context, check *Check, q leaseQuestion, late func(*Check, lease)) (lease, error) {
	if !r.uses.acquire() {
		return lease{}, errClosed
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
		return lease{}, err
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

// A lease call is of one check, whose weight is decided: none if it peeks. Its numbers are the wish, the
// units of an earlier lease to give back, and the receipt of that; its answer has the units leased, for
// how many microseconds, and their receipt, behind the four numbers of any answer.

// newLeaseCall makes a call that gives units of an earlier lease back, decides a check, and leases.
func newLeaseCall(check *Check, wish leaseWish, rest int64, r receipt) *call {
	c := newCall(opLease, []Check{*check})
	c.receipts = append(c.receipts, receipt{wish.units, wish.lasts}, receipt{first: rest}, r)
	return c
}

// readLease reads the numbers of a lease from an answer.
func (c *call) readLease(text string) error {
	units, lasts, first, second := double(text, 4), double(text, 5), double(text, 6), double(text, 7)
	if !(units >= 0 && units <= float64(c.checks[0].Policy.params.capacity)) || !(lasts >= 0 && lasts < precision) ||
		!(first >= 0 && first < precision) || !(second >= 0 && second < precision) {
		return undecided(fmt.Errorf("%w: %v units for %v, receipt %v %v", errValue, units, lasts, first, second))
	}
	c.receipts = append(c.receipts[:0], receipt{int64(units), int64(lasts)}, receipt{int64(first), int64(second)})
	return nil
}

// leased returns the lease of a call that was answered. It lasts so many microseconds.
func (c *call) leased() lease {
	return lease{units: c.receipts[0].first, lasts: c.receipts[0].second, receipt: c.receipts[1]}
}
