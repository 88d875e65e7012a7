package wire

// Operation is what a batch does with a group of requests.
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
	OpLease                               // give units of a lease back, take, and take units ahead; all may be none
)

// operation is a row of the table of operations.
type operation struct {
	number     int64 // in batch.lua
	decides    bool  // it answers what a request would get
	background bool  // it changes a state after its request was answered
	stamped    bool  // it changes what this process runs: each check that counts that has a [Stamp]
	doubles    int   // numbers in the answer to one check: wait, remaining, reset and delay, and then its own

	write func(m *Message, p *Payload)                   // what a request brings beside keys and weights; nil: nothing
	read  func(p *Payload, check int, text string) error // what an answer has behind the four numbers of all; nil: nothing
}

// operations is the table of operations. None is sent again once it may have arrived, by [MayHaveRun]: a peek, which
// changes nothing, as little as the others. The last column says what a lost answer means.
var operations = [...]operation{
	OpTake:           {number: 1, decides: true, stamped: true, doubles: 4},                                            // perhaps charged; the fail mode decides
	OpPeek:           {number: 2, decides: true, doubles: 4},                                                           // nothing
	OpTakeRefundable: {number: 3, decides: true, stamped: true, doubles: 6, read: (*Payload).readReceipt},              // as of a take
	OpSettle:         {number: 4, background: true, doubles: 4, write: writeSettlements, read: (*Payload).readSettled}, // perhaps not settled; counted as lost
	OpRepay:          {number: 5, background: true, doubles: 4, write: writeDebts, read: (*Payload).readRepaid},        // perhaps not repaid; counted as lost
	OpOffend:         {number: 6, decides: true, doubles: 4},                                                           // the denial stays, perhaps not counted
	OpRelease:        {number: 7, background: true, stamped: true, doubles: 4},                                         // a later epoch corrects the count
	OpState:          {number: 7, stamped: true, doubles: 4},                                                           // as of a release
	OpLease:          {number: 9, decides: true, doubles: 8, write: writeLease, read: (*Payload).readLease},            // units leased, or given back, lapse
}

// headSize is the length in bytes of what an answer begins with: Redis's time, as a double.
const headSize = 8

// answerSize returns the length in bytes of the answer to one check, of little-endian doubles.
func (o Operation) answerSize() int { return 8 * operations[o].doubles }

// IsBackground reports whether the operation changes a state after its request was answered.
func (o Operation) IsBackground() bool { return operations[o].background }
