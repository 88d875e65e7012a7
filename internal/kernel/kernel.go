// Package kernel holds the pure part of each algorithm, and of bans: what a request would get, and the state after
// it. A kernel reads no clock, takes no lock and sends nothing: the time comes as a number, and the answer goes as
// numbers. Each has a Lua twin in scripts/ that computes the same. It imports nothing of the module.
package kernel

// kernel is the pure part of an algorithm: functions of a state, an instant, a policy's parameters
// and a weight. All times are ticks, instants count from the Unix epoch. No kernel reads a clock.
type kernel interface {
	// Decide returns what a request of this weight would get that reserves units for others, and
	// writes nothing. The weight and the reserve are together from 0 to the capacity, or the weight is 0. A reserve below 0
	// leaves out as many units that are taken.
	Decide(s State, now int64, t *Params, weight, reserve int64) Verdict

	// Take returns the state after a passing verdict. Only a refundable take needs its receipt.
	Take(s State, t *Params, v Verdict, refundable bool) State

	// Receipt identifies the take of a passing verdict.
	Receipt(v Verdict) Receipt

	// Refund returns the state without some of the units of a take, from 1 to its weight, as far as they
	// have not drained by themselves. A receipt is valid once.
	Refund(s State, now int64, t *Params, weight, units int64, r Receipt) State

	// Charge returns the state after a take that needs no room: of any weight up to MaxCharge, into
	// debt. The debt saturates before the formulas stop to be exact.
	Charge(s State, now int64, t *Params, weight int64) State

	// Owed returns what a state holds at an instant beyond another one, of the same key. None is
	// below a unit.
	Owed(s, beyond State, now int64, t *Params) []Debt

	// Repay returns the state after a debt was added, as far as that leaves it within the capacity,
	// and how many whole units were added. A debt that has decayed changes nothing.
	Repay(s State, now int64, t *Params, d Debt) (repaid State, units int64)

	// RestoreState rebuilds a state at least as full as the last one reported, from its used units
	// and reset time. The reset is later than now.
	RestoreState(used, resets, now int64, t *Params) State

	// Again returns within how many ticks the request of a take passes again, at the latest, if the take left nothing of
	// the quota. The reset is that of the take's verdict: what stores answer of a state. It is returned where it says no more.
	Again(reset int64, t *Params, weight, reserve int64) int64

	// Describe returns a stored state in words for operators.
	Describe(s State, now int64, t *Params) map[string]any

	// Expires returns the instant from which the whole quota is free again if no other request
	// comes.
	Expires(s State, now int64, t *Params) int64
}

// Verdict is the answer to a request in ticks: a Result, and the numbers that a take stores.
type Verdict struct {
	Wait      int64 // 0 passes; or Never
	Remaining int64 // what must stay for others included
	Reset     int64
	Delay     int64
	Next      Numbers // that a take stores
	lead      int64   // of a log: by how much the tick of the entry is ahead of the clock

	// BeyondQueue says that the units for others would wait too long in the queue, so that a request that reserves
	// them finds nothing.
	BeyondQueue bool
}

// Never is the wait of a request that asks for more than there can be.
const Never = -1

// Debt is what a key owes to a store: units of a window, by the window's index; of a log, by their
// tick; of a bucket, whose instant is 0, in 1/window units.
type Debt struct{ At, Amount int64 }

// Lateness says whether a message about running requests came too late to change anything.
type Lateness uint8

// What Redis answers to such a message.
const (
	InTime     Lateness = iota
	Superseded          // a later epoch has arrived
	Lost                // Redis does not know the node
)

// Receipt identifies a take, so that it can be refunded.
type Receipt struct{ First, Second int64 }

// State is the state of one key in one policy; all zero is that of a client that was never seen.
type State struct {
	Numbers
	Log   *UnitLog // sliding_window_log only
	Holes *Holes   // buckets whose units were refunded only
}

// Numbers are the whole state of the algorithms that keep no log, but for the refunds of buckets, in the order of
// Redis. Each kernel has a type that names them.
type Numbers struct{ A, B, C int64 }

// Leasing is a kernel whose units can be taken ahead. Its Lua twin has a second fragment,
// <name>_lease.lua.
type Leasing interface {
	kernel

	// Lease decides a request of this weight, which may be 0, and takes units ahead of later ones if it
	// passes. The verdict's remaining is what was left before, its reset that of the state afterwards.
	Lease(s State, now int64, t *Params, weight, reserve int64, wish Wish) (Verdict, Lease, State)

	// GiveBack returns the state without units of a lease that were not spent. It never returns more than
	// the lease still holds of the state, however late it is.
	GiveBack(s State, now int64, t *Params, units int64, r Receipt) State
}
