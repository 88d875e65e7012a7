package memory

import (
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/kernel"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// keptBan is a state of bans in this process.
type keptBan struct {
	kernel.BanState
	seen bool  // it is Redis's, by its last answer
	asOf int64 // Redis's time at that answer, in microseconds
}

// refuseBanned turns the answer to a check into a denial if its client is banned, and reports
// whether it is. The lock of the shard is held.
func (s *Shard) refuseBanned(c *limiter.Check, now int64) bool {
	if c.Result.RetryAfter == limiter.Never {
		return false
	}
	left := c.Policy.Ban.Left(s.Bans[c.Key.String()].BanState, now)
	if left == 0 {
		return false
	}
	if c.Result.Passes() {
		show(s.Get(c.Policy, c.Key.String(), now), now, c)
	}
	limiter.Ban(c, left, false)
	return true
}

// countDenials counts the denials of a request none of whose clients is banned. The parts are those
// of the checks, with their shards locked.
func countDenials(parts []part, checks []limiter.Check, now int64) {
	for i := range checks {
		c := &checks[i]
		if c.Policy.Ban == nil || c.Result.RetryAfter <= 0 || c.Result.ForOthers {
			continue
		}
		held := parts[i].shard.Bans[c.Key.String()].BanState
		if !c.Policy.Ban.Counts(held, now, c.Policy.Params.Capacity, c.Policy.Refunds) {
			continue
		}
		next, begins := c.Policy.Ban.Denied(held, now)
		if parts[i].shard.keepBan(c.Key.String(), keptBan{BanState: next}, now) && begins > 0 {
			limiter.Ban(c, begins, true)
		}
	}
}

// keepBan stores a state, if there is room for it: without room no client is banned.
func (s *Shard) keepBan(key string, b keptBan, now int64) bool {
	if _, known := s.Bans[key]; !known {
		if !s.makeRoom(now) {
			return false
		}
		if s.Bans == nil {
			s.Bans = map[string]keptBan{}
		}
	}
	s.Bans[key] = b
	return true
}

// rememberBan keeps what Redis's answer says about the ban of a client, so that an outage does not
// lift it. Answers to concurrent requests arrive in any order.
func (s *Shard) rememberBan(c *limiter.Check, now int64) {
	kept, known := s.Bans[c.Key.String()]
	switch {
	case c.Result.RetryAfter == limiter.Never:
		return // the answer is the same with a ban and without
	case c.Result.Banned:
		until := now + c.Result.BanLeft.Microseconds()
		b := kernel.BanState{Offenses: max(1, kept.Offenses), Until: until, Forgotten: until + c.Policy.Ban.Longest}
		s.keepBan(c.Key.String(), keptBan{BanState: b, seen: true, asOf: c.State.DecidedAt}, now)
	case known && kept.seen && c.State.DecidedAt <= kept.asOf: // it was decided before the ban began
	case known && kept.seen:
		s.unban(c.Key.String()) // it has ended, or was lifted
	case known && kept.Until > now:
		kept.Until = now // Redis has no ban that began here in an outage; the offense stays
		s.Bans[c.Key.String()] = kept
	}
}

// unban drops the state of a key, and reports whether there was one.
func (s *Shard) unban(key string) bool {
	if _, known := s.Bans[key]; !known {
		return false
	}
	delete(s.Bans, key)
	s.owner.keys.Add(-1)
	return true
}

// banWindow is the window of the shard's policies in microseconds.
func (s *Shard) banWindow() int64 { return s.table.slowest.Load().Settings.Window.Microseconds() }

// sweepBans drops those of a few random states that have ended, and returns how many it visited.
func (s *Shard) sweepBans(now int64, sample int) (visited int) {
	if len(s.Bans) == 0 {
		return 0
	}
	window := s.banWindow()
	for key, b := range s.Bans {
		if visited++; b.Expires(window) <= now-s.owner.Grace {
			delete(s.Bans, key)
		}
		if visited >= sample {
			break
		}
	}
	return visited
}
