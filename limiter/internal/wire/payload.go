package wire

import (
	"fmt"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/decision"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/kernel"
)

// Payload is what a call carries to Redis and back: an operation on the checks of a request, and its outcome.
type Payload struct {
	Op       Operation
	Checks   []limiter.Check
	Receipts []kernel.Receipt
	Err      error
	Slot     uint16 // of a Cluster
	Shows    bool   // settling is answered with the quota as it stands then
}

// Fill copies the checks, to settle them with their receipts, so that the caller may leave at any time.
func (p *Payload) Fill(op Operation, checks []limiter.Check) {
	p.Op, p.Err, p.Shows = op, nil, false
	p.Checks = append(p.Checks[:0], checks...)
	p.Receipts = p.Receipts[:0]
	if op.decides() {
		return
	}
	for i := range checks {
		p.Checks[i].Reserve = 0              // makes no difference to the shape
		decision.Kept(&p.Checks[i]).AsOf = 0 // of its decision
		if op == OpSettle || op == OpRepay {
			p.Receipts = append(p.Receipts, decision.Kept(&checks[i]).Receipt)
		}
	}
}

// A lease call is of one check, whose weight is decided: none if it peeks. Its numbers are the wish, the
// units of an earlier lease to give back, and the receipt of that; its answer has the units leased, for
// how many microseconds, and their receipt, behind the four numbers of any answer.

// FillLease makes the payload one that gives units of an earlier lease back, decides a check, and leases.
func (p *Payload) FillLease(check *limiter.Check, wish kernel.Wish, rest int64, r kernel.Receipt) {
	p.Fill(opLease, []limiter.Check{*check})
	p.Receipts = append(p.Receipts, kernel.Receipt{First: wish.Units, Second: wish.Lasts}, kernel.Receipt{First: rest}, r)
}

// readLease reads the numbers of a lease from an answer.
func (p *Payload) readLease(text string) error {
	units, lasts, first, second := Double(text, 4), Double(text, 5), Double(text, 6), Double(text, 7)
	if !(units >= 0 && units <= float64(p.Checks[0].Policy.Rule().Params.Capacity)) || !(lasts >= 0 && lasts < kernel.Precision) ||
		!(first >= 0 && first < kernel.Precision) || !(second >= 0 && second < kernel.Precision) {
		return Undecided(fmt.Errorf("%w: %v units for %v, receipt %v %v", errValue, units, lasts, first, second))
	}
	p.Receipts = append(p.Receipts[:0], kernel.Receipt{First: int64(units), Second: int64(lasts)}, kernel.Receipt{First: int64(first), Second: int64(second)})
	return nil
}

// Leased returns the lease of a call that was answered. It lasts so many microseconds.
func (p *Payload) Leased() kernel.Lease {
	return kernel.Lease{Units: p.Receipts[0].First, Lasts: p.Receipts[0].Second, Receipt: p.Receipts[1]}
}

// sameShape reports whether two payloads differ in their keys alone.
func (p *Payload) sameShape(other *Payload) bool {
	if p.Op != other.Op || len(p.Checks) != len(other.Checks) {
		return false
	}
	for i := range p.Checks {
		a, b := &p.Checks[i], &other.Checks[i]
		if a.Policy != b.Policy || decision.Units(a) != decision.Units(b) || a.Reserve != b.Reserve {
			return false
		}
	}
	return true
}

// Quotas returns a check for each quota. The debts of an outage are of one.
func (p *Payload) Quotas() []limiter.Check {
	if p.Op == OpRepay {
		return p.Checks[:1]
	}
	return p.Checks
}

// IsPostponed reports whether the script had no room for a refund.
func (p *Payload) IsPostponed() bool {
	return p.Op == OpSettle && p.Err == nil && !limiter.Allowed(p.Checks)
}

// KeepPostponed leaves those checks of a refund that are still to do.
func (p *Payload) KeepPostponed() {
	left := 0
	for i := range p.Checks {
		if !p.Checks[i].Result.Passes() {
			p.Checks[left], p.Receipts[left] = p.Checks[i], p.Receipts[i]
			left++
		}
	}
	clear(p.Checks[left:])
	p.Checks, p.Receipts = p.Checks[:left], p.Receipts[:left]
}

// IsUncovered reports whether the calendar periods that were sent are not around Redis's time.
func (p *Payload) IsUncovered() bool {
	return p.Err != nil && limiter.Kind(p.Err) == decision.KindClock
}

// BeginReservations counts what was reserved, before a request that was denied for it is answered. The caller has
// not left.
func (p *Payload) BeginReservations() {
	if p.Op != OpTakeRefundable || p.Err != nil || !limiter.Allowed(p.Checks) {
		return
	}
	for i := range p.Checks {
		decision.BeginReservation(&p.Checks[i])
	}
}

// MaxBatch is the most checks of one script run, unless a single request has more. It bounds how long a run
// keeps Redis from serving others: about half a millisecond.
const MaxBatch = 128

// MaxOpenSenders is the most batches in flight once some do not come back. Where one of twenty
// takes 50 ms, ten are in flight at any time, and now and then twice as many.
const MaxOpenSenders = 48
