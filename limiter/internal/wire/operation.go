package wire

// Operation is what a batch does with a group of requests; the numbers are those of batch.lua.
type Operation int

// The operations.
const (
	OpTake           Operation = 1 + iota // charge if all checks pass
	OpPeek                                // decide, charge nothing
	OpTakeRefundable                      // take, and answer with receipts
	OpSettle                              // correct what was taken to what it cost
	OpRepay                               // add debts of an outage
	OpOffend                              // peek, and count denials for bans
	OpRelease                             // state what this process runs, less what has ended
	OpState                               // the same by another name: no request waits for it
	opLease                               // take, and take units ahead; both may be none
)

// number returns the operation's number in batch.lua.
func (o Operation) number() int64 {
	if o == OpState {
		o = OpRelease
	}
	return int64(o)
}

// decides reports whether the operation answers what a request would get.
func (o Operation) decides() bool {
	return o == OpTake || o == OpPeek || o == OpTakeRefundable || o == OpOffend || o == opLease
}

// hasNumbers reports whether each call of the operation has numbers of its own.
func (o Operation) hasNumbers() bool { return o == OpSettle || o == OpRepay || o == opLease }

// headSize is the length in bytes of what an answer begins with: Redis's time, as a double.
const headSize = 8

// answerSize returns the length in bytes of the answer to one check: wait, remaining, reset and
// delay, and the two numbers of a receipt for a take with one, each as a little-endian double. See
// payload.go for a lease.
func (o Operation) answerSize() int {
	switch o {
	case OpTakeRefundable:
		return 6 * 8
	case opLease:
		return 8 * 8
	}
	return 4 * 8
}

// isStamped reports whether the operation changes what this process runs.
func (o Operation) isStamped() bool {
	return o == OpTake || o == OpTakeRefundable || o == OpRelease || o == OpState
}

// IsBackground reports whether the operation changes a state after its request was answered.
func (o Operation) IsBackground() bool {
	return o == OpSettle || o == OpRepay || o == OpRelease
}
