package waiting

import "github.com/redis-ratelimit/caddy-redis-ratelimit/internal/kernel"

// This file is the Go twin of scripts/waiting.lua: the rule of internal/kernel/waiting.go, as a function of what Redis keeps of
// one key. The stores leave the decision to the script; the tests compare it with this one, and simulate nodes by it.

// turnVerdict answers one ask.
type turnVerdict struct {
	granted bool
	foreign int64 // the age of another node's claim, at least 1, or of units above the limit; 0: there is none
	turnAge int64
}

// turns are what Redis keeps of one key beside the counts.
type turns struct{ kernel.WaitingState }

// decide decides an ask of a node for units, where the others that run have a total, and keeps what the ask changes.
// A nil turn is that of a request that does not wait: it leaves nothing.
func (s *turns) decide(now, limit, total, units, node int64, turn *kernel.Turn) turnVerdict {
	claim := s.claimAt(now)
	began := now
	if turn != nil {
		began = s.began(now, turn)
	}
	ahead := int64(0)
	if claim.Units > 0 && claim.Node != node && began > claim.Turn+kernel.Slack(now-claim.Turn) {
		ahead = claim.Units
	}
	v := turnVerdict{granted: total+units+ahead <= limit, turnAge: now - began}
	switch {
	case turn == nil:
	case v.granted:
		if turn.Slot != kernel.NoSlot {
			s.set(turn.Slot, now)
		}
		if claim.Node == node && turn.Claim > 0 {
			s.Claim, claim = kernel.NodeClaim{}, kernel.NodeClaim{}
		}
	case turn.Claim > 0 && (claim.Units == 0 || claim.Node == node || began < claim.Turn):
		claim = kernel.NodeClaim{Turn: began, Node: node, Units: units, Ends: now + min(turn.Claim, kernel.LongestClaim)}
		s.Claim = claim
	}
	switch {
	case turn == nil:
	case total > limit:
		v.foreign = max(1, now)
	case claim.Units > 0 && claim.Node != node:
		v.foreign = max(1, now-claim.Turn)
	}
	return v
}

// claimAt returns the claim that holds at an instant.
func (s *turns) claimAt(now int64) kernel.NodeClaim {
	if s.Claim.HoldsAt(now) {
		return s.Claim
	}
	return kernel.NodeClaim{}
}

// began returns when the turn of an ask began, and keeps the last start that the ask tells of.
func (s *turns) began(now int64, turn *kernel.Turn) int64 {
	began := max(0, now-turn.Age)
	if turn.LastSlot != kernel.NoSlot {
		start := max(0, now-turn.LastAge)
		if kept := s.Turns[turn.LastSlot]; kept < start || kept > now {
			s.set(turn.LastSlot, start)
		}
	}
	if kept, found := s.Turns[turn.Slot]; found && turn.Slot != kernel.NoSlot && kept > began && kept <= now {
		began = kept
	}
	return began
}

func (s *turns) set(slot, at int64) {
	if s.Turns == nil {
		s.Turns = map[int64]int64{}
	}
	s.Turns[slot] = at
}
