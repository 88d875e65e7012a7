package kernel

import (
	"time"
)

// Ban is a policy's rule of who is refused for a while: a client whose requests are denied `after`
// times within a window. Its offenses take the durations in turn, the last one again and again, and
// are forgotten the longest duration after a ban has ended. All times are microseconds, whatever the
// policy's tick. Lua twin: scripts/ban.lua.
type Ban struct {
	Durations []int64
	After     int64
	Window    int64
	Longest   int64
	ID        string // names the states, as limiter.Policy.ID
}

// BanCode begins the last part of the Redis keys of bans. No algorithm has it.
const BanCode = "b"

// BanState is what is kept of a key's denials; all zero is the state of a client without any.
// Instants are microseconds since the Unix epoch.
type BanState struct {
	Denials, Since     int64 // counted since then
	Offenses           int64
	Until, Forgotten   int64 // the end of the ban, and the instant from which the offenses are none
	Confirmed, Counted int64 // units that were reserved and stay (the second), since the first
}

// at returns the state at an instant. A state that a wrong clock wrote counts as none.
func (b *Ban) at(s BanState, now int64) BanState {
	if s.Until-now > 2*b.Longest || (s.Denials > 0 && s.Since-now > b.Window) || (s.Counted > 0 && s.Confirmed-now > b.Window) {
		return BanState{}
	}
	return s
}

// Left returns how long a client is still banned; 0 if it is not.
func (b *Ban) Left(s BanState, now int64) int64 {
	return max(0, b.at(s, now).Until-now)
}

// Counts reports whether a denial is counted. If units can be refunded, that takes units that stay
// and have filled the capacity: otherwise parallel requests that are all refunded would ban their
// client.
func (b *Ban) Counts(s BanState, now, capacity int64, refunds bool) bool {
	s = b.at(s, now)
	return !refunds || (now-s.Confirmed < b.Window && s.Counted >= capacity)
}

// Denied returns the state after a denial that counts, and how long the ban is that begins with it; 0
// for none.
func (b *Ban) Denied(s BanState, now int64) (next BanState, begins int64) {
	s = b.at(s, now)
	if s.Denials == 0 || now-s.Since >= b.Window {
		s.Denials, s.Since = 0, now
	}
	s.Denials++
	if s.Denials < b.After {
		return s, 0
	}
	if now < s.Forgotten {
		s.Offenses++
	} else {
		s.Offenses = 1
	}
	begins = b.Durations[min(s.Offenses, int64(len(b.Durations)))-1]
	s.Denials, s.Since = 0, 0
	s.Until = now + begins
	s.Forgotten = s.Until + b.Longest
	return s, begins
}

// Confirm returns the state after units that were reserved are known to stay.
func (b *Ban) Confirm(s BanState, now, weight int64) BanState {
	s = b.at(s, now)
	if now-s.Confirmed >= b.Window {
		s.Confirmed, s.Counted = now, 0
	}
	s.Counted = addDebt(s.Counted, weight, MaxCharge)
	return s
}

// Expires returns the instant from which the state says nothing any more.
func (s BanState) Expires(window int64) int64 {
	ends := s.Forgotten
	if s.Denials > 0 {
		ends = max(ends, s.Since+window)
	}
	if s.Counted > 0 {
		ends = max(ends, s.Confirmed+window)
	}
	return ends
}

// Describe returns the state in words for operators.
func (s BanState) Describe() map[string]any {
	words := map[string]any{"denials": s.Denials, "offenses": s.Offenses}
	instants := map[string]int64{"denials_since": s.Since, "banned_until": s.Until, "offenses_forgotten": s.Forgotten,
		"counted_since": s.Confirmed}
	for name, micros := range instants {
		if micros > 0 {
			words[name] = time.UnixMicro(micros).UTC().Format(time.RFC3339Nano) //nolint:forbidigo // for people
		}
	}
	if s.Counted > 0 {
		words["units_counted"] = s.Counted
	}
	return words
}
