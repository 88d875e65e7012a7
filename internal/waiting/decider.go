package waiting

import (
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/kernel"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// Decider is the store as the queue sees it: it decides who gets units of running requests. H is what the store gives out
// with units, and takes back: its own reference to them. The queue calls the store without a lock. No function may wait.
type Decider[H any] interface {
	// Try asks for units. It calls the function once, also if the store does not answer in time, and perhaps before
	// it returns. Messages that came too late (see [kernel.Lateness]) it sends once more by itself.
	Try(ask Ask, answered func(Answer[H]))

	// Release returns all units of a grant.
	Release(held H)

	// HandOn has a grant go on with another request of the same key and limit, which takes so many of the units, at
	// least 1. It returns the others, and sends no message where there are none.
	HandOn(held H, units int64) H
}

// Ask is a question for units of one key.
type Ask struct {
	Policy *limiter.Policy
	Key    limiter.EncodedKey
	Weight int64
	Turn   kernel.Turn

	FailMode limiter.FailMode
}

// Answer is what became of an [Ask]: [Granted], [Denied], [Unknown] or [Forgotten].
type Answer[H any] interface{ isAnswer(held H) }

// Granted says that the units of an ask are taken.
type Granted[H any] struct {
	Held  H
	Free  int64 // units that the key has left
	Claim Claim
}

// Denied says that no unit of an ask is taken.
type Denied[H any] struct {
	TurnAge time.Duration // of the turn of the ask, which may be later than the asking node knows
	Claim   Claim
}

// Unknown says that the store has not decided an ask, or that the answer is lost. Its units are the store's to return.
type Unknown[H any] struct{}

// Forgotten says that no unit of an ask is taken, and that the store has forgotten what this node runs of the key: perhaps
// also what others run, which they tell by their next messages.
type Forgotten[H any] struct{}

func (Granted[H]) isAnswer(H)   {}
func (Denied[H]) isAnswer(H)    {}
func (Unknown[H]) isAnswer(H)   {}
func (Forgotten[H]) isAnswer(H) {}

// Claim is what an answer tells of the claim that another node has laid to the next units of the key. The zero value tells
// nothing, as a store's does that cannot know of other nodes: no place is handed on by it.
type Claim struct {
	known   bool
	foreign bool
	age     time.Duration
}

// NoClaim says that no other node has a claim.
func NoClaim() Claim { return Claim{known: true} }

// ForeignClaim says that another node has one, whose turn is that old.
func ForeignClaim(age time.Duration) Claim {
	return Claim{known: true, foreign: true, age: max(0, age)}
}
