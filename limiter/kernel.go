package limiter

// kernel is the pure part of an algorithm: functions of a state, an instant, a policy's parameters
// and a weight. All times are ticks, instants count from the Unix epoch. No kernel reads a clock.
type kernel interface {
	// decide returns what a request of this weight would get that reserves units for others, and
	// writes nothing. The weight and the reserve are together at most the capacity, or the weight is 0.
	decide(s state, now int64, t *params, weight, reserve int64) verdict

	// take returns the state after a passing verdict. Only a refundable take needs its receipt.
	take(s state, t *params, v verdict, refundable bool) state

	// receipt identifies the take of a passing verdict.
	receipt(v verdict) receipt

	// refund returns the state without some of the units of a take, from 1 to its weight, as far as they
	// have not drained by themselves. A receipt is valid once.
	refund(s state, now int64, t *params, weight, units int64, r receipt) state

	// charge returns the state after a take that needs no room: of any weight up to maxCharge, into
	// debt. The debt saturates where the formulas would stop to be exact.
	charge(s state, now int64, t *params, weight int64) state

	// owed returns what a state holds at an instant beyond another one, of the same key. None is
	// below a unit.
	owed(s, beyond state, now int64, t *params) []debt

	// repay returns the state after a debt was added, as far as that leaves it within the capacity,
	// and how many whole units were added. A debt that has decayed changes nothing.
	repay(s state, now int64, t *params, d debt) (repaid state, units int64)

	// restoreState rebuilds a state at least as full as the last one reported, from its used units
	// and reset time. The reset is later than now.
	restoreState(used, resets, now int64, t *params) state

	// describe returns a stored state in words for operators.
	describe(s state, now int64, t *params) map[string]any

	// expires returns the instant from which the whole quota is free again if no other request
	// comes.
	expires(s state, now int64, t *params) int64
}

// extendedKernel is a kernel whose policies bring numbers of their own to Redis. Its Lua twin has a
// function `read` that takes them from the message.
type extendedKernel interface {
	// numbers appends the numbers of one policy. They depend on the time of the Redis that they are for, in
	// microseconds since the Unix epoch, and on the ID of this process there.
	numbers(dst []int64, now, node int64, t *params) []int64
}

// verdict is the answer to a request in ticks: a Result, and the state that a take stores.
type verdict struct {
	wait      int64 // 0 passes
	remaining int64 // what must stay for others included; see beyondQueue
	reset     int64
	delay     int64
	a, b, c   int64
	lead      int64 // of a log: by how much the tick of the entry is ahead of the clock
}

// debt is what a key owes to a store: units of a window, by the window's index; of a log, by their
// tick; of a bucket, where the instant is 0, in 1/window units.
type debt struct{ at, amount int64 }

// ticket is what the parts of the limiter keep of a check until its request ends.
type ticket struct {
	asOf     int64   // the store's time at its answer, in microseconds
	receipt  receipt // of a reservation that passed, or a debt
	withheld int64   // units that remain and are not in the result
	change   int64   // of what it took, to settle it: units to charge, below 0 to refund
	stays    int64   // units that settling it counts for bans
	held     any     // by the part that decided: awaited, or what runs; nil: nothing
	places   int32   // units that the request has until it ends, see Failover.EndRunning
	turn     int32   // in which the store answered at asOf
}

// receipt identifies a take, so that it can be refunded.
type receipt struct{ first, second int64 }

// state is the state of one key in one policy. Each kernel gives the numbers their meaning; all zero
// is the state of a client that was never seen.
type state struct {
	numbers
	log   *unitLog // sliding_window_log only
	holes *holes   // buckets whose units were refunded only
}

// numbers are the whole state of the algorithms that keep no log, but for the refunds of buckets.
type numbers struct{ a, b, c int64 }
