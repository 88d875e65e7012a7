package limiter

import (
	"fmt"
	"sync/atomic"
	"time"
)

// call is one request on its way through a batch. Exactly one side recycles it: the caller that got
// the answer or the error; the sender that finds it in the queue or has its answer, where the caller
// has left or there is none; or the code that refuses to queue it.
type call struct {
	op       operation
	checks   []Check
	receipts []receipt
	err      error
	alone    [1]*call    // itself, for a batch of one
	inflight inflight    // where it is sent alone
	slot     uint16      // of a Cluster
	detached bool        // no caller waits for it
	shows    bool        // settling is answered with the quota as it stands then
	done     func()      // of a detached call: runs when it is answered; may be nil
	uses     *references // of a detached call, queued or in flight: keeps the store open

	heldUntil time.Time // waits for refunds and charges of its quotas until then; zero: for none

	state  atomic.Int32
	waiter *waiter // that waits for it in the queue or for its answer; nil: there is none
}

// newCall copies the checks, to settle them with their receipts, so that the caller may leave at any time.
func newCall(op operation, checks []Check) *call {
	c := callPool.Get().(*call) //nolint:forcetypeassert,errcheck // the pool holds nothing else
	c.op, c.err, c.detached, c.shows, c.done = op, nil, false, false, nil
	c.alone[0] = c
	c.checks = append(c.checks[:0], checks...)
	c.receipts = c.receipts[:0]
	if !op.decides() {
		for i := range checks {
			c.checks[i].Reserve = 0 // makes no difference to the shape
			c.checks[i].asOf = 0    // of its decision
			if op == opSettle || op == opRepay {
				c.receipts = append(c.receipts, checks[i].receipt)
			}
		}
	}
	c.state.Store(callQueued)
	return c
}

// recycle ends the call, which must not be used afterwards. It keeps no reference to the owner's
// data.
func (c *call) recycle() {
	clear(c.checks)
	uses := c.uses
	c.err, c.done, c.uses, c.waiter, c.heldUntil = nil, nil, nil, nil, time.Time{}
	callPool.Put(c)
	if uses != nil {
		uses.release()
	}
}

// take copies the answers to the caller's checks, and recycles the call.
func (c *call) take(checks []Check) {
	copy(checks, c.checks)
	for i := range c.receipts {
		checks[i].receipt = c.receipts[i]
	}
	c.recycle()
}

// sameShape reports whether two calls differ in their keys alone.
func (c *call) sameShape(other *call) bool {
	if c.op != other.op || len(c.checks) != len(other.checks) {
		return false
	}
	for i := range c.checks {
		a, b := &c.checks[i], &other.checks[i]
		if a.Policy != b.Policy || a.units() != b.units() || a.Reserve != b.Reserve {
			return false
		}
	}
	return true
}

// quotas returns a check for each quota of a call. The debts of an outage are of one.
func (c *call) quotas() []Check {
	if c.op == opRepay {
		return c.checks[:1]
	}
	return c.checks
}

// isPostponed reports whether the script had no room for a refund.
func (c *call) isPostponed() bool {
	return c.op == opSettle && c.err == nil && !Allowed(c.checks)
}

// keepPostponed turns a refund that was sent back into a queued one, with the checks left to do.
func (c *call) keepPostponed() {
	left := 0
	for i := range c.checks {
		if !c.checks[i].Result.Passes() {
			c.checks[left], c.receipts[left] = c.checks[i], c.receipts[i]
			left++
		}
	}
	clear(c.checks[left:])
	c.checks, c.receipts = c.checks[:left], c.receipts[:left]
	c.state.Store(callQueued)
}

func (c *call) isUncovered() bool { return c.err != nil && Kind(c.err) == kindClock }

// beginReservations counts what was reserved, before a request that was denied for it is answered. The caller has not
// left.
func (c *call) beginReservations() {
	if c.op != opTakeRefundable || c.err != nil || !Allowed(c.checks) {
		return
	}
	for i := range c.checks {
		c.checks[i].beginReservation()
	}
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
