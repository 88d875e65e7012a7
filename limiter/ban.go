package limiter

import (
	"slices"
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

func newBan(s Settings) *ban {
	if len(s.Ban) == 0 {
		return nil
	}
	b := &ban{after: int64(max(1, s.BanAfter)), window: s.Window.Microseconds(), id: s.Name + ":" + banCode + windowCode(s.Window, 1)}
	for _, d := range s.Ban {
		b.durations = append(b.durations, d.Microseconds())
		b.longest = max(b.longest, d.Microseconds())
	}
	return b
}

// banCode begins the last part of the Redis keys of bans. No algorithm has it.
const banCode = "b"

const (
	// MinBan is the shortest duration of [Settings.Ban].
	MinBan = time.Second

	// MaxBan is the longest one.
	MaxBan = 365 * 24 * time.Hour

	// MaxBans is how many durations there may be.
	MaxBans = 16

	// MaxBanAfter is the largest [Settings.BanAfter].
	MaxBanAfter = 1000
)

// checkBan reports what is wrong with the settings of bans.
func (s *Settings) checkBan() error {
	switch {
	case len(s.Ban) == 0 && s.BanAfter != 0:
		return &FieldError{"BanAfter", decimal(int64(s.BanAfter)), "there are no durations of bans; add some, or leave it out"}
	case len(s.Ban) > MaxBans:
		return &FieldError{"Ban", "", "there are " + decimal(int64(len(s.Ban))) + " durations; use at most " + decimal(MaxBans) + ", of which the last goes on"}
	case s.BanAfter < 0 || s.BanAfter > MaxBanAfter:
		return &FieldError{"BanAfter", decimal(int64(s.BanAfter)), "use a whole number of denials from 1 to " + decimal(MaxBanAfter)}
	}
	for i, d := range s.Ban {
		switch {
		case d < MinBan || d > MaxBan || d%time.Microsecond != 0:
			return &FieldError{"Ban", d.String(), "use durations from 1s to 365d, in whole microseconds"}
		case i > 0 && d < s.Ban[i-1]:
			return &FieldError{"Ban", d.String(), "shorter than the duration before it; each is for the next offense, so write them in ascending order"}
		}
	}
	return nil
}

// sameBans reports whether two settings ban alike.
func (s *Settings) sameBans(other *Settings) bool {
	return slices.Equal(s.Ban, other.Ban) && max(1, s.BanAfter) == max(1, other.BanAfter)
}

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
func (b *ban) counts(s banState, now int64, p *Policy) bool {
	s = b.at(s, now)
	return !p.refunds.Load() || (now-s.confirmed < b.window && s.counted >= p.params.capacity)
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
	s.counted = addDebt(s.counted, weight, MaxCharge)
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

// ban adds a ban of the given microseconds to the result of a check that is not above the capacity.
func (c *Check) ban(left int64, begins bool) {
	r := &c.Result
	r.Banned, r.BanBegins, r.BanLeft = true, begins, duration(left)
	r.Remaining, r.Delay, r.ForOthers = 0, 0, false
	r.ResetAfter = max(r.ResetAfter, r.BanLeft)
	if !c.Peek {
		r.RetryAfter = max(r.RetryAfter, r.BanLeft)
	}
}
