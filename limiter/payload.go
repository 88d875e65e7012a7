package limiter

import (
	"fmt"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/kernel"
)

// payload is what a call carries to Redis and back: an operation on the checks of a request, and its outcome.
type payload struct {
	op       operation
	checks   []Check
	receipts []kernel.Receipt
	err      error
	slot     uint16 // of a Cluster
	shows    bool   // settling is answered with the quota as it stands then
}

// fill copies the checks, to settle them with their receipts, so that the caller may leave at any time.
func (p *payload) fill(op operation, checks []Check) {
	p.op, p.err, p.shows = op, nil, false
	p.checks = append(p.checks[:0], checks...)
	p.receipts = p.receipts[:0]
	if op.decides() {
		return
	}
	for i := range checks {
		p.checks[i].Reserve = 0       // makes no difference to the shape
		keptOf(&p.checks[i]).AsOf = 0 // of its decision
		if op == opSettle || op == opRepay {
			p.receipts = append(p.receipts, keptOf(&checks[i]).Receipt)
		}
	}
}

// A lease call is of one check, whose weight is decided: none if it peeks. Its numbers are the wish, the
// units of an earlier lease to give back, and the receipt of that; its answer has the units leased, for
// how many microseconds, and their receipt, behind the four numbers of any answer.

// fillLease makes the payload one that gives units of an earlier lease back, decides a check, and leases.
func (p *payload) fillLease(check *Check, wish kernel.Wish, rest int64, r kernel.Receipt) {
	p.fill(opLease, []Check{*check})
	p.receipts = append(p.receipts, kernel.Receipt{First: wish.Units, Second: wish.Lasts}, kernel.Receipt{First: rest}, r)
}

// readLease reads the numbers of a lease from an answer.
func (p *payload) readLease(text string) error {
	units, lasts, first, second := double(text, 4), double(text, 5), double(text, 6), double(text, 7)
	if !(units >= 0 && units <= float64(p.checks[0].Policy.Rule().Params.Capacity)) || !(lasts >= 0 && lasts < kernel.Precision) ||
		!(first >= 0 && first < kernel.Precision) || !(second >= 0 && second < kernel.Precision) {
		return undecided(fmt.Errorf("%w: %v units for %v, receipt %v %v", errValue, units, lasts, first, second))
	}
	p.receipts = append(p.receipts[:0], kernel.Receipt{First: int64(units), Second: int64(lasts)}, kernel.Receipt{First: int64(first), Second: int64(second)})
	return nil
}

// leased returns the lease of a call that was answered. It lasts so many microseconds.
func (p *payload) leased() kernel.Lease {
	return kernel.Lease{Units: p.receipts[0].First, Lasts: p.receipts[0].Second, Receipt: p.receipts[1]}
}

// sameShape reports whether two payloads differ in their keys alone.
func (p *payload) sameShape(other *payload) bool {
	if p.op != other.op || len(p.checks) != len(other.checks) {
		return false
	}
	for i := range p.checks {
		a, b := &p.checks[i], &other.checks[i]
		if a.Policy != b.Policy || unitsOf(a) != unitsOf(b) || a.Reserve != b.Reserve {
			return false
		}
	}
	return true
}

// quotas returns a check for each quota. The debts of an outage are of one.
func (p *payload) quotas() []Check {
	if p.op == opRepay {
		return p.checks[:1]
	}
	return p.checks
}

// isPostponed reports whether the script had no room for a refund.
func (p *payload) isPostponed() bool {
	return p.op == opSettle && p.err == nil && !Allowed(p.checks)
}

// keepPostponed leaves those checks of a refund that are still to do.
func (p *payload) keepPostponed() {
	left := 0
	for i := range p.checks {
		if !p.checks[i].Result.Passes() {
			p.checks[left], p.receipts[left] = p.checks[i], p.receipts[i]
			left++
		}
	}
	clear(p.checks[left:])
	p.checks, p.receipts = p.checks[:left], p.receipts[:left]
}

// isUncovered reports whether the calendar periods that were sent are not around Redis's time.
func (p *payload) isUncovered() bool { return p.err != nil && Kind(p.err) == kindClock }

// beginReservations counts what was reserved, before a request that was denied for it is answered. The caller has
// not left.
func (p *payload) beginReservations() {
	if p.op != opTakeRefundable || p.err != nil || !Allowed(p.checks) {
		return
	}
	for i := range p.checks {
		beginReservation(&p.checks[i])
	}
}

// maxBatch is the most checks of one script run, unless a single request has more. It bounds how long a run
// keeps Redis from serving others: about half a millisecond.
const maxBatch = 128
