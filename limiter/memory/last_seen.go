package memory

import (
	"math"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/kernel"
)

// LastSeen is Redis's last answer about a quota, so that an outage is no free refill: the local
// store goes on from the last answer that this node received.
type LastSeen struct {
	used   int64 // units
	Resets int64 // local microseconds since the Unix epoch
	asOf   int64 // Redis's time at the answer, in microseconds
	turn   int32 // in which Redis answered at that time
	least  bool  // more may be used: no unit was left, of a limit that may have been lower than the next one
}

// outOfOrder is by how much the answers to concurrent requests may differ in Redis's time, in microseconds.
// One that is older by more comes from a clock that was set back, or from another Redis.
const outOfOrder = 1_000_000

// Remember keeps the answer to a check that Redis decided, if there is room.
func (m *Store) Remember(c *limiter.Check) { m.RememberLease(c, 0) }

// RememberLease does so where so many of the units that remained were leased.
func (m *Store) RememberLease(c *limiter.Check, leased int64) {
	if c.Policy.CountsRunning() {
		return // what other nodes run changes without end
	}
	now := m.Clock()
	s := m.Lock(c.Policy, c.Key.String())
	defer s.Mu.Unlock()
	if c.Policy.Rule().Ban != nil {
		s.rememberBan(c, now)
	}
	if c.Result.Banned {
		return // what is left besides is unknown, and only decays meanwhile
	}
	if !s.learn(c, leased, now) {
		s.owner.overflows() // an outage would begin with a whole quota
	}
}

// Remembers reports whether an answer about a check's quota is kept.
func (m *Store) Remembers(c *limiter.Check) bool {
	s := m.Lock(c.Policy, c.Key.String())
	defer s.Mu.Unlock()
	_, known := s.Seen[c.Key.String()]
	return known
}

// RememberRefund keeps the quota as it stood after a refund by Redis, where an answer about it was kept.
func (m *Store) RememberRefund(c *limiter.Check) {
	s := m.Lock(c.Policy, c.Key.String())
	defer s.Mu.Unlock()
	if _, known := s.Seen[c.Key.String()]; known {
		s.learn(c, 0, m.Clock())
	}
}

// learn keeps the quota of an answer, unless Redis gave the one that is kept later, and reports whether
// there is room for it.
func (s *Shard) learn(c *limiter.Check, leased, now int64) bool {
	a := LastSeen{used: c.Policy.Rule().Params.Capacity - c.Unused() + leased, Resets: now + c.Result.ResetAfter.Microseconds(),
		asOf: limiter.KeptOf(c).AsOf, turn: limiter.KeptOf(c).Turn, least: c.Unused() == 0}
	if before, known := s.Seen[c.Key.String()]; known && before.Resets > now {
		older := a.precedes(&before)
		switch {
		case older && !before.least:
			return true
		case older || a.least:
			a = a.orFuller(&before, older)
		}
	}
	if a.used == 0 || a.Resets <= now {
		s.forget(c.Key.String())
		return true
	}
	return s.keepSeen(c.Key.String(), a, now)
}

// precedes reports whether Redis gave an answer before another one.
func (l *LastSeen) precedes(other *LastSeen) bool {
	if l.asOf == other.asOf {
		return l.turn < other.turn
	}
	return l.asOf < other.asOf && other.asOf-l.asOf < outOfOrder
}

// orFuller returns an answer that leaves no more than another one about the same quota. A bucket is as full as
// its reset says.
func (l LastSeen) orFuller(other *LastSeen, older bool) LastSeen {
	l.used, l.Resets, l.least = max(l.used, other.used), max(l.Resets, other.Resets), l.least || other.least
	if older {
		l.asOf, l.turn = other.asOf, other.turn
	}
	return l
}

// keepSeen stores what is used of a key, and reports whether there is room for it.
func (s *Shard) keepSeen(key string, a LastSeen, now int64) bool {
	if _, known := s.Seen[key]; !known && !s.makeRoom(now) {
		return false
	}
	if s.Seen == nil {
		s.Seen = map[string]LastSeen{}
	}
	s.Seen[key] = a
	return true
}

// RememberCharge adds units that Redis has charged after its last answer about a key, if there is room. The policy is
// the check's, with calendar periods by this process's clock.
func (m *Store) RememberCharge(c *limiter.Check, p *limiter.Policy) {
	if p.CountsRunning() {
		return
	}
	now := m.Clock()
	s := m.Lock(p, c.Key.String())
	defer s.Mu.Unlock()
	held, a := kernel.State{}, LastSeen{asOf: limiter.KeptOf(c).AsOf, turn: limiter.KeptOf(c).Turn}
	if before := s.Seen[c.Key.String()]; before.Resets > now {
		older := limiter.KeptOf(c).AsOf > 0 && a.precedes(&before)
		if older && !before.least {
			return // the answer includes the charge
		}
		if older || limiter.KeptOf(c).AsOf == 0 {
			a.asOf, a.turn = before.asOf, before.turn
		}
		held, a.least = before.Restore(p, now), before.least
	}
	t, k := &p.Rule().Params, p.Rule().Algorithm.Kernel
	v := k.Decide(k.Charge(held, now/t.Tick, t, limiter.KeptOf(c).Change), now/t.Tick, t, 0, 0)
	a.used, a.Resets = t.Capacity-min(max(0, v.Remaining), t.Capacity), now+v.Reset*t.Tick
	a.least = a.least || a.used == t.Capacity
	s.keepSeen(c.Key.String(), a, now) // without room its answer has overflowed
}

// forget drops the last answer about a key and reports whether there was one.
func (s *Shard) forget(key string) bool {
	if _, known := s.Seen[key]; !known {
		return false
	}
	delete(s.Seen, key)
	s.owner.keys.Add(-1)
	return true
}

// sweepSeen drops those of a few random answers whose quota has reset, and returns how many it
// visited.
func (s *Shard) sweepSeen(now int64, sample int) (visited int) {
	for key, a := range s.Seen {
		if visited++; a.Resets <= now {
			delete(s.Seen, key)
		}
		if visited >= sample {
			break
		}
	}
	return visited
}

// Restore rebuilds a state from an answer, for the policy or one that is scaled from it.
func (l LastSeen) Restore(p *limiter.Policy, now int64) kernel.State {
	t := &p.Rule().Params
	used := l.used
	if p.Rule().Fraction > 0 {
		used = int64(math.Ceil(float64(used) * p.Rule().Fraction))
	}
	return p.Rule().Algorithm.Kernel.RestoreState(min(used, t.Capacity), kernel.CeilDiv(l.Resets, t.Tick), now/t.Tick, t)
}
