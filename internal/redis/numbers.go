package redis

import (
	"regexp"
	"strconv"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/kernel"
)

// This file names the numbers that Go and the scripts send each other and that mean something else than a number. The
// scripts have the names of the table below, and Redis gets the numbers in their places, so that no run has to set them:
//
//	wait = NEVER   ->   wait = -1

// Instead of a wait, an answer has one of these. [kernel.Never] is another one.
const (
	failed        = -2 // the check's request raised an error
	failedHalfway = -3 // as failed, after a check of the request may have changed
	superseded    = -4 // see [kernel.Lateness]
	lost          = -5
)

const (
	// banned is a factor: the delay of a banned client is banned times what is left of the ban in microseconds, and
	// banBegins more if the request began the ban. For example, -60000001 is a ban of 30 s that begins.
	banned    = -2
	banBegins = -1

	// beyondQueue less what remains is the remaining of an answer beyond the queue, see [kernel.Verdict].
	beyondQueue = -1

	// postponed is the first number of the answer to a change: this run had no room for a refund.
	postponed = 1

	// withReserve is a factor of the number of a policy: the check's reserve follows its weight.
	withReserve = -1

	// aLook is a factor of the weight of a look, see [limiter.Check].
	aLook = -1

	// noTurn stands in place of a turn's age: the request does not wait.
	noTurn = -1
)

const (
	// NoBase is the base of a message whose epoch Redis knows.
	NoBase = -1

	// NothingLeft is the base of a release with which Redis forgets the node's entry.
	NothingLeft = -2
)

// numbers has all of these by the names in the scripts.
var numbers = map[string]int64{
	"TAKE": int64(OpTake), "TAKE_WITH_RECEIPT": int64(OpTake | WithReceipt), "TAKE_AHEAD": int64(OpTake | Ahead),
	"PEEK": int64(OpPeek), "PEEK_COUNTED": int64(OpPeek | Counted),
	"CHANGE": int64(OpChange), "OWED": int64(Owed), "SHOWN": int64(Shown),
	"STATE":      int64(OpState),
	"OPERATIONS": int64(operationBits + 1),

	"NO_QUEUE":     kernel.NoQueue,
	"WITH_RESERVE": withReserve, "A_LOOK": aLook,
	"NO_BASE": NoBase, "NOTHING_LEFT": NothingLeft,
	"NO_TURN": noTurn, "NO_SLOT": kernel.NoSlot,

	"NEVER": kernel.Never, "FAILED": failed, "FAILED_HALFWAY": failedHalfway, "SUPERSEDED": superseded, "LOST": lost,
	"BANNED": banned, "BAN_BEGINS": banBegins,
	"BEYOND_QUEUE": beyondQueue,
	"POSTPONED":    postponed,
	"RUNNING_HINT": kernel.RunningHint,
}

// capitals matches a string of Lua, a comment behind code, or a name in capitals.
var capitals = regexp.MustCompile(`'[^']*'|   --.*|\b[A-Z][A-Z_]+\b`)

// withNumbers returns the text of a script with numbers in place of their names.
func withNumbers(text string) string {
	return capitals.ReplaceAllStringFunc(text, func(word string) string {
		if number, found := numbers[word]; found {
			return strconv.FormatInt(number, 10)
		}
		return word
	})
}
