package wire

import (
	"fmt"
	"slices"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/kernel"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// Payload is what a call carries to Redis and back: an operation on the checks of a request, what that operation
// needs beside them, and its outcome.
type Payload struct {
	Op     Operation
	Checks []limiter.Check
	Err    error
	Slot   uint16 // of a Cluster

	Settlements []Settlement  // of [OpSettle], one for each check
	Shows       bool          // of [OpSettle]: its answer has the quota as it stands then
	Debts       []kernel.Debt // of [OpRepay], one for each check; all checks are of one quota
	Repaid      int64         // the answer to them: units of the debts that Redis has added
	Lease       Lease         // of [OpLease], which has one check: it is decided, without a weight if it peeks
}

// Settlement is what settling changes of one check.
type Settlement struct {
	limiter.Change
	Postponed bool // the answer: the script had no room for the refund
}

// Lease is what a lease asks for, and its answer.
type Lease struct {
	Wish    kernel.Wish
	Rest    int64          // units of an earlier lease to give back
	Receipt kernel.Receipt // of the earlier lease
	Got     kernel.Lease   // the answer; no units: nothing was leased
}

// Stamp is the epoch that a message about running requests belongs to, and what the process runs at its begin.
type Stamp struct {
	Epoch int64
	Base  int64 // or [NoBase], or [NothingLeft]
}

const (
	// NoBase is the base of a message whose epoch Redis knows.
	NoBase = -1

	// NothingLeft is the base of a release with which Redis forgets the node's entry.
	NothingLeft = -2
)

// Stamped is what a check holds whose units run.
type Stamped interface{ StampOf() Stamp }

// Fill makes the payload an operation on copies of checks, so that the caller may leave at any time. It settles and
// repays nothing yet.
func (p *Payload) Fill(op Operation, checks []limiter.Check) {
	p.Op, p.Err, p.Shows, p.Repaid, p.Lease = op, nil, false, 0, Lease{}
	p.Checks = append(p.Checks[:0], checks...)
	p.Settlements, p.Debts = p.Settlements[:0], p.Debts[:0]
	if operations[op].decides {
		return
	}
	for i := range checks {
		p.Checks[i].Reserve = 0         // makes no difference to the shape
		p.Checks[i].State.DecidedAt = 0 // of its decision
		switch op {
		case OpSettle:
			p.Settlements = append(p.Settlements, Settlement{})
		case OpRepay:
			p.Debts = append(p.Debts, kernel.Debt{})
		}
	}
}

// writeSettlements writes the receipt of each check and what settling it changes.
func writeSettlements(m *Message, p *Payload) {
	shows := int64(0)
	if p.Shows {
		shows = 1
	}
	for i, s := range p.Settlements {
		m.writeReceipt(p.Checks[i].State.Receipt)
		m.WriteNumber(s.Units)
		m.WriteNumber(s.Stays)
		m.WriteNumber(shows)
	}
}

// writeDebts writes debts.
func writeDebts(m *Message, p *Payload) {
	for _, d := range p.Debts {
		m.WriteNumber(d.At)
		m.WriteNumber(d.Amount)
	}
}

// writeLease writes what a lease asks for.
func writeLease(m *Message, p *Payload) {
	m.WriteNumber(p.Lease.Wish.Units)
	m.WriteNumber(p.Lease.Wish.Lasts)
	m.WriteNumber(p.Lease.Rest)
	m.WriteNumber(0) // nothing reads it
	m.writeReceipt(p.Lease.Receipt)
}

func (m *Message) writeReceipt(r kernel.Receipt) {
	m.WriteNumber(r.First)
	m.WriteNumber(r.Second)
}

// writeStamps writes the epoch and the base of each check that counts running requests.
func (m *Message) writeStamps(calls []*Payload) {
	for _, c := range calls {
		for i := range c.Checks {
			if c.Checks[i].Policy.CountsRunning {
				stamp := stampOf(&c.Checks[i])
				m.WriteNumber(stamp.Epoch)
				m.WriteNumber(stamp.Base)
			}
		}
	}
}

// stampOf returns the stamp of a check; zero for a probe.
func stampOf(c *limiter.Check) (stamp Stamp) {
	if s, ok := c.State.Owner.(Stamped); ok {
		stamp = s.StampOf()
	}
	return stamp
}

// readReceipt reads the receipt of a take.
func (p *Payload) readReceipt(check int, text string) error {
	first, second := Double(text, 4), Double(text, 5)
	if !(first >= 0 && first < kernel.Precision) || !(second >= 0 && second < kernel.Precision) {
		return Undecided(fmt.Errorf("%w: receipt %v %v", errValue, first, second))
	}
	p.Checks[check].State.Receipt = kernel.Receipt{First: int64(first), Second: int64(second)}
	return nil
}

// readSettled reads whether a refund was postponed, which is answered with a wait.
func (p *Payload) readSettled(check int, _ string) error {
	r := &p.Checks[check].Result
	p.Settlements[check].Postponed, r.RetryAfter = r.RetryAfter > 0, 0
	return nil
}

// readRepaid reads how many units of a debt were added, which is answered as what remains.
func (p *Payload) readRepaid(check int, _ string) error {
	p.Repaid += p.Checks[check].Result.Remaining
	return nil
}

// readLease reads the units leased, for how many microseconds, and their receipt.
func (p *Payload) readLease(check int, text string) error {
	units, lasts, first, second := Double(text, 4), Double(text, 5), Double(text, 6), Double(text, 7)
	if !(units >= 0 && units <= float64(p.Checks[check].Policy.Params.Capacity)) || !(lasts >= 0 && lasts < kernel.Precision) ||
		!(first >= 0 && first < kernel.Precision) || !(second >= 0 && second < kernel.Precision) {
		return Undecided(fmt.Errorf("%w: %v units for %v, receipt %v %v", errValue, units, lasts, first, second))
	}
	p.Lease.Got = kernel.Lease{Units: int64(units), Lasts: int64(lasts), Receipt: kernel.Receipt{First: int64(first), Second: int64(second)}}
	return nil
}

// sameShape reports whether two payloads differ in their keys alone, and in what each request brings.
func (p *Payload) sameShape(other *Payload) bool {
	if p.Op != other.Op || len(p.Checks) != len(other.Checks) {
		return false
	}
	for i := range p.Checks {
		a, b := &p.Checks[i], &other.Checks[i]
		if a.Policy != b.Policy || limiter.Units(a) != limiter.Units(b) || a.Reserve != b.Reserve {
			return false
		}
	}
	return true
}

// Permissions returns the operation that shows whether Redis permits this one.
func (p *Payload) Permissions() Operation {
	if p.Op == OpSettle && !slices.ContainsFunc(p.Settlements, func(s Settlement) bool { return s.Units < 0 }) {
		return OpTake // a charge needs no others
	}
	return p.Op
}

// Quotas returns a check for each quota.
func (p *Payload) Quotas() []limiter.Check {
	if p.Op == OpRepay {
		return p.Checks[:1]
	}
	return p.Checks
}

// IsPostponed reports whether the script had no room for a refund.
func (p *Payload) IsPostponed() bool {
	return p.Op == OpSettle && p.Err == nil && slices.ContainsFunc(p.Settlements, func(s Settlement) bool { return s.Postponed })
}

// KeepPostponed leaves those checks of a refund that are still to do.
func (p *Payload) KeepPostponed() {
	left := 0
	for i, s := range p.Settlements {
		if s.Postponed {
			p.Checks[left], p.Settlements[left] = p.Checks[i], s
			left++
		}
	}
	clear(p.Checks[left:])
	p.Checks, p.Settlements = p.Checks[:left], p.Settlements[:left]
}

// IsUncovered reports whether the calendar periods that were sent are not around Redis's time.
func (p *Payload) IsUncovered() bool {
	return p.Err != nil && limiter.Kind(p.Err) == limiter.KindClock
}

// BeginReservations counts what was reserved, before a request that was denied for it is answered. The caller has
// not left.
func (p *Payload) BeginReservations() {
	if p.Op != OpTakeRefundable || p.Err != nil || !limiter.Allowed(p.Checks) {
		return
	}
	for i := range p.Checks {
		limiter.BeginReservation(&p.Checks[i])
	}
}
