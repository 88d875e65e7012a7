package kernel

// This file is the rule by which requests on several nodes wait for units of running requests in turns, by what Redis
// keeps beside the counts: one claim, and when values last had their turn. scripts/waiting.lua decides by it; its Go twin
// is internal/waiting/twin_test.go. All ages and lengths are in microseconds.
//
// A claim says which node has the oldest turn and how many units its request needs. Others leave these units free,
// unless their turn is later by no more than [Slack]. A node renews its claim by asking; one that does not ask any
// more loses the claim by its end. Where more runs than the limit, the units above it are owed before all turns: asks
// are answered as if another node had a claim that is older than any. Else the nodes would hand these units on for ever.

const (
	// TurnSlots is how many slots the values of all nodes share.
	TurnSlots = 64

	// NoSlot is the slot of requests that wait in the order of their arrival, and of a last start that there is not.
	NoSlot = -1

	// LongestClaim is how long a claim lasts at most. One that seems to last longer is void: the clock went back.
	LongestClaim = 10_000_000

	// mostSlack is the most by which a turn may be later than that of a claim, without being behind it.
	mostSlack = 1_000_000
)

// Turn is what a node tells of the request that it asks for. Ages travel, so that no clocks need to agree.
type Turn struct {
	Age      int64 // of the turn
	Claim    int64 // how long the claim of a denial lasts, up to LongestClaim; 0: a denial leaves no claim
	Slot     int64 // of the value, or NoSlot
	LastSlot int64 // of the last value of which a request has started on the node, or NoSlot
	LastAge  int64 // of that start
}

// WaitingState is what is kept of one key beside the counts. The zero value has no claim and no slot.
type WaitingState struct {
	Claim NodeClaim
	Turns map[int64]int64 // when a value of the slot last had its turn: Unix times
}

// NodeClaim is a node's claim to the next units. Instants are Unix times.
type NodeClaim struct {
	Turn, Node, Units, Ends int64 // no units: there is no claim
}

// Slack returns by how much a turn may be later than that of a claim of this age without being behind the claim:
// half the age, and at most a second.
func Slack(age int64) int64 { return max(0, min(mostSlack, age/2)) }

// HoldsAt reports whether the claim holds at an instant.
func (c NodeClaim) HoldsAt(now int64) bool {
	return c.Units > 0 && c.Ends > now && c.Ends <= now+LongestClaim
}
