package limiter

import (
	"time"
)

// ban is a policy's rule of who is refused for a while: a client whose requests are denied `after`
// times within a window. Its offenses take the durations in turn, the last one again and again, and
// are forgotten the longest duration after a ban has ended. All times are microseconds, whatever the
// policy's tick. Lua twin: scripts/ban.lua.
type ban struct {
	durations []int64
	after     int64
	window    int64
	longest   int64
	id        string // names the states, as [Policy.ID]
}

// banCode begins the last part of the Redis keys of bans. No algorithm has it.
const banCode = "b"

// banState is what is kept of a key's denials; all zero is the state of a client without any.
// Instants are microseconds since the Unix epoch.
type banState struct {
	denials, since     int64 // counted since then
	offenses           int64
	until, forgotten   int64 // the end of the ban, and the instant from which the offenses are none
	confirmed, counted int64 // units that were reserved and stay (the second), since the first
}

// at returns the state as it stands at an instant. One that a wrong clock wrote counts as none.
func (b *ban) at(s banState, now int64) banState {
	if s.until-now > 2*b.longest || (s.denials > 0 && s.since-now > b.window) || (s.counted > 0 && s.confirmed-now > b.window) {
		return banState{}
	}
	return s
}

// left returns how long a client is still banned; 0 where it is not.
func (b *ban) left(s banState, now int64) int64 {
	return max(0, b.at(s, now).until-now)
}

// counts reports whether a denial is counted. Where units can be refunded, that takes units that stay
// and have filled the capacity: otherwise parallel requests that are all refunded would ban their
// client.
func (b *ban) counts(s banState, now, capacity int64, refunds bool) bool {
	s = b.at(s, now)
	return !refunds || (now-s.confirmed < b.window && s.counted >= capacity)
}

// denied returns the state after a denial that counts, and how long the ban is that begins with it; 0
// for none.
func (b *ban) denied(s banState, now int64) (next banState, begins int64) {
	s = b.at(s, now)
	if s.denials == 0 || now-s.since >= b.window {
		s.denials, s.since = 0, now
	}
	s.denials++
	if s.denials < b.after {
		return s, 0
	}
	if now < s.forgotten {
		s.offenses++
	} else {
		s.offenses = 1
	}
	begins = b.durations[min(s.offenses, int64(len(b.durations)))-1]
	s.denials, s.since = 0, 0
	s.until = now + begins
	s.forgotten = s.until + b.longest
	return s, begins
}

// confirm returns the state after units that were reserved are known to stay.
func (b *ban) confirm(s banState, now, weight int64) banState {
	s = b.at(s, now)
	if now-s.confirmed >= b.window {
		s.confirmed, s.counted = now, 0
	}
	s.counted = addDebt(s.counted, weight, maxCharge)
	return s
}

// expires returns the instant from which the state says nothing any more.
func (s banState) expires(window int64) int64 {
	ends := s.forgotten
	if s.denials > 0 {
		ends = max(ends, s.since+window)
	}
	if s.counted > 0 {
		ends = max(ends, s.confirmed+window)
	}
	return ends
}

// describe returns the state in words for operators.
func (s banState) describe() map[string]any {
	words := map[string]any{"denials": s.denials, "offenses": s.offenses}
	instants := map[string]int64{"denials_since": s.since, "banned_until": s.until, "offenses_forgotten": s.forgotten, "counted_since": s.confirmed}
	for name, micros := range instants {
		if micros > 0 {
			words[name] = time.UnixMicro(micros).UTC().Format(time.RFC3339Nano) //nolint:forbidigo // for people
		}
	}
	if s.counted > 0 {
		words["units_counted"] = s.counted
	}
	return words
}
