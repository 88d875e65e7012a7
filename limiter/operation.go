package limiter

// operation is what a batch does with a group of requests; the numbers are those of batch.lua.
type operation int

const (
	opTake           operation = 1 + iota // charge if all checks pass
	opPeek                                // decide, charge nothing
	opTakeRefundable                      // take, and answer with receipts
	opSettle                              // correct what was taken to what it cost
	opRepay                               // add debts of an outage
	opOffend                              // peek, and count denials for bans
	opRelease                             // state what this process runs, less what has ended
	opState                               // the same by another name: no request waits for it
	opLease                               // take, and take units ahead; both may be none
)

// number returns the operation's number in batch.lua.
func (o operation) number() int64 {
	if o == opState {
		o = opRelease
	}
	return int64(o)
}

// decides reports whether the operation answers what a request would get.
func (o operation) decides() bool {
	return o == opTake || o == opPeek || o == opTakeRefundable || o == opOffend || o == opLease
}

// hasNumbers reports whether each call of the operation has numbers of its own.
func (o operation) hasNumbers() bool { return o == opSettle || o == opRepay || o == opLease }

// headSize is the length in bytes of what an answer begins with: Redis's time, as a double.
const headSize = 8

// answerSize returns the length in bytes of the answer to one check: wait, remaining, reset and
// delay, and the two numbers of a receipt for a take with one, each as a little-endian double. See
// lease_redis.go for a lease.
func (o operation) answerSize() int {
	switch o {
	case opTakeRefundable:
		return 6 * 8
	case opLease:
		return 8 * 8
	}
	return 4 * 8
}

// isStamped reports whether the operation changes what this process runs.
func (o operation) isStamped() bool {
	return o == opTake || o == opTakeRefundable || o == opRelease || o == opState
}

// isBackground reports whether the operation changes a state after its request was answered.
func (o operation) isBackground() bool {
	return o == opSettle || o == opRepay || o == opRelease
}
