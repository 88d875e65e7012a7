package kernel

// This file is the rule by which requests on several nodes wait for units of running requests in turns, as pure
// functions of what Redis keeps beside the counts: one claim, and when values last had their turn. Lua twin:
// scripts/waiting.lua. All ages and lengths are in microseconds.
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

// WaitingVerdict answers one ask.
type WaitingVerdict struct {
	Granted bool
	Foreign int64 // the age of another node's claim, at least 1, or of units above the limit; 0: there is none
	TurnAge int64
}

// Slack returns by how much a turn may be later than that of a claim of this age without being behind the claim:
// half the age, and at most a second.
func Slack(age int64) int64 { return max(0, min(mostSlack, age/2)) }

// Decide decides an ask of a node for units, where the others that run have a total, and keeps what the ask changes.
// A nil turn is that of a request that does not wait: it leaves nothing.
func (s *WaitingState) Decide(now, limit, total, units, node int64, turn *Turn) WaitingVerdict {
	claim := s.claimAt(now)
	began := now
	if turn != nil {
		began = s.began(now, turn)
	}
	ahead := int64(0)
	if claim.Units > 0 && claim.Node != node && began > claim.Turn+Slack(now-claim.Turn) {
		ahead = claim.Units
	}
	v := WaitingVerdict{Granted: total+units+ahead <= limit, TurnAge: now - began}
	switch {
	case turn == nil:
	case v.Granted:
		if turn.Slot != NoSlot {
			s.set(turn.Slot, now)
		}
		if claim.Node == node && turn.Claim > 0 {
			s.Claim, claim = NodeClaim{}, NodeClaim{}
		}
	case turn.Claim > 0 && (claim.Units == 0 || claim.Node == node || began < claim.Turn):
		claim = NodeClaim{began, node, units, now + min(turn.Claim, LongestClaim)}
		s.Claim = claim
	}
	switch {
	case turn == nil:
	case total > limit:
		v.Foreign = max(1, now)
	case claim.Units > 0 && claim.Node != node:
		v.Foreign = max(1, now-claim.Turn)
	}
	return v
}

// claimAt returns the claim that holds at an instant.
func (s *WaitingState) claimAt(now int64) NodeClaim {
	if s.Claim.HoldsAt(now) {
		return s.Claim
	}
	return NodeClaim{}
}

// HoldsAt reports whether the claim holds at an instant.
func (c NodeClaim) HoldsAt(now int64) bool {
	return c.Units > 0 && c.Ends > now && c.Ends <= now+LongestClaim
}

// began returns when the turn of an ask began, and keeps the last start that the ask tells of.
func (s *WaitingState) began(now int64, turn *Turn) int64 {
	began := max(0, now-turn.Age)
	if turn.LastSlot != NoSlot {
		start := max(0, now-turn.LastAge)
		if kept := s.Turns[turn.LastSlot]; kept < start || kept > now {
			s.set(turn.LastSlot, start)
		}
	}
	if kept, found := s.Turns[turn.Slot]; found && turn.Slot != NoSlot && kept > began && kept <= now {
		began = kept
	}
	return began
}

func (s *WaitingState) set(slot, at int64) {
	if s.Turns == nil {
		s.Turns = map[int64]int64{}
	}
	s.Turns[slot] = at
}
