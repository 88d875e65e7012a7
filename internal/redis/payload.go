package redis

import (
	"slices"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/kernel"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// Operation is what a batch does with a group of requests: one of four operations, and bits for what the operation does
// beside. It is written into the message as it is. No call is sent again once it may have arrived, by [MayHaveRun].
type Operation int

// The operations.
const (
	// OpTake charges the weights if all checks pass. If the answer is lost the request is perhaps charged, and the
	// fail mode decides.
	OpTake Operation = 1 + iota

	// OpPeek decides and charges nothing.
	OpPeek

	// OpChange corrects what was taken, after its request was answered: see [Change]. If the answer is lost it is
	// counted as lost.
	OpChange

	// OpState says what this process runs, less the weight, which has ended. If it is lost a later epoch corrects
	// the count. It has one check.
	OpState
)

// What operations do beside.
const (
	// WithReceipt has a take answered with receipts.
	WithReceipt Operation = 8 << iota

	// Ahead has a take begin with a change of an earlier lease, and end with units that are taken ahead of their
	// requests: see [leaseAhead]. Each of the three may be nothing. The take has one check, which is decided without a
	// weight if it peeks. Units whose answer is lost lapse.
	Ahead

	// Counted has a peek count denials for bans. If the answer is lost a denial is perhaps not counted.
	Counted

	// Owed says of changes that they are debts of an outage, which leave a quota within its capacity.
	Owed

	// Shown has changes answered with what is left of the quota.
	Shown

	// operationBits are those of the operation itself.
	operationBits Operation = 7
)

// Payload is what a call carries to Redis and back: an operation on the checks of a request, what that operation
// needs beside them, and its outcome.
type Payload struct {
	Op     Operation
	Checks []limiter.Check
	Err    error
	Slot   uint16 // of a Cluster

	Changes []Change   // of [OpChange], one for each check; of a take [Ahead] the one that it begins with
	Lease   leaseAhead // of a take [Ahead]
}

// Change is what changes in the quota of one check, and what became of that.
type Change struct {
	limiter.Change                // units to charge or refund, and units that stay
	Receipt        kernel.Receipt // of the take or the lease whose units are refunded
	Debt           kernel.Debt    // with [Owed] alone: what is to be added

	Postponed bool  // the answer: this run of the script had no room for the refund
	Added     int64 // the answer to a debt: how many whole units Redis has added
}

// leaseAhead is what a take ahead wishes, and what it got.
type leaseAhead struct {
	Wish kernel.Wish
	Got  kernel.Lease // the answer; no units: nothing was leased
}

// Stamp is the epoch that a message about running requests belongs to, and what the process runs at its begin.
type Stamp struct {
	Epoch int64
	Base  int64 // or [NoBase], or [NothingLeft]
}

// Stamped is what a check holds whose units run.
type Stamped interface{ StampOf() Stamp }

// Turned is what the check of a request holds besides that waits for its units, by a policy whose requests may.
type Turned interface{ TurnOf() *kernel.Turn }

// Fill makes the payload an operation on copies of checks, so that the caller may leave at any time. What it changes
// is still to be set.
func (p *Payload) Fill(op Operation, checks []limiter.Check) {
	p.Op, p.Err, p.Lease = op, nil, leaseAhead{}
	p.Checks = append(p.Checks[:0], checks...)
	p.Changes = p.Changes[:0]
	if op&operationBits <= OpPeek {
		return
	}
	for i := range checks {
		p.Checks[i].Reserve = 0         // makes no difference to the shape
		p.Checks[i].State.DecidedAt = 0 // of its decision
		if op&operationBits == OpChange {
			p.Changes = append(p.Changes, Change{Receipt: checks[i].State.Receipt})
		}
	}
}

// IsBackground reports whether the operation changes a state after its request was answered: the next request of the
// same quota follows it.
func (p *Payload) IsBackground() bool {
	return p.Op&operationBits == OpChange || p.Op == OpState && !p.Checks[0].Peek
}

// sameShape reports whether two payloads differ in their keys alone, and in what each request brings.
func (p *Payload) sameShape(other *Payload) bool {
	if p.Op != other.Op || len(p.Checks) != len(other.Checks) {
		return false
	}
	for i := range p.Checks {
		a, b := &p.Checks[i], &other.Checks[i]
		if a.Policy != b.Policy || limiter.Units(a) != limiter.Units(b) || a.Reserve != b.Reserve || a.Look != b.Look || a.Credit != b.Credit {
			return false
		}
	}
	return true
}

// Permissions returns the operation that shows whether Redis permits this one.
func (p *Payload) Permissions() Operation {
	if p.Op&operationBits == OpChange && !slices.ContainsFunc(p.Changes, func(c Change) bool { return c.Units < 0 }) {
		return OpTake // a charge needs no others
	}
	return p.Op & operationBits
}

// Quotas returns a check for each quota. Debts of one quota stand together.
func (p *Payload) Quotas() []limiter.Check {
	if len(p.Checks) > 1 && p.Checks[0].SameQuota(&p.Checks[1]) {
		return p.Checks[:1]
	}
	return p.Checks
}

// Added returns the units of debts that Redis has added.
func (p *Payload) Added() (units int64) {
	for i := range p.Changes {
		units += p.Changes[i].Added
	}
	return units
}

// IsPostponed reports whether the script had no room for a refund.
func (p *Payload) IsPostponed() bool {
	return p.Err == nil && slices.ContainsFunc(p.Changes, func(c Change) bool { return c.Postponed })
}

// KeepPostponed leaves those changes that are still to do.
func (p *Payload) KeepPostponed() {
	left := 0
	for i, c := range p.Changes {
		if c.Postponed {
			c.Postponed = false
			p.Checks[left], p.Changes[left] = p.Checks[i], c
			left++
		}
	}
	clear(p.Checks[left:])
	p.Checks, p.Changes = p.Checks[:left], p.Changes[:left]
}

// IsUncovered reports whether the calendar periods that were sent are not around Redis's time.
func (p *Payload) IsUncovered() bool {
	return p.Err != nil && limiter.Kind(p.Err) == limiter.KindClock
}

// BeginReservations counts the units of a take with receipts as unsettled, before a request that was denied for them
// is answered. The caller has not left.
func (p *Payload) BeginReservations() {
	if p.Err != nil || !limiter.Allowed(p.Checks) {
		return
	}
	for i := range p.Checks {
		limiter.BeginReservation(&p.Checks[i])
	}
}
