package memory

import (
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/kernel"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// Remember keeps the answer to a check that Redis decided, if there is room.
func (m *Store) Remember(c *limiter.Check) { m.RememberLease(c, 0) }

// RememberLease does so after some of the units that remained were leased.
func (m *Store) RememberLease(c *limiter.Check, leased int64) {
	if c.Policy.CountsRunning {
		return // what other nodes run changes without end
	}
	now := m.Clock()
	s := m.Lock(c.Policy, c.Key.String())
	defer s.Mu.Unlock()
	if c.Policy.Ban != nil {
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

// RememberRefund keeps the quota as it stood after a refund by Redis, if an answer about it was kept.
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
	a := LastSeen{used: c.Policy.Params.Capacity - c.Unused() + leased, limit: c.Policy.Params.Limit, Resets: now + c.Result.ResetAfter.Microseconds(),
		asOf: c.State.DecidedAt, turn: c.State.Turn, least: c.Unused() == 0}
	if before, known := s.Seen[c.Key.String()]; known && before.Resets > now {
		older := a.precedes(&before)
		switch {
		case older && !before.least:
			return true
		case older || a.least:
			a = a.orStricter(&before, older, c.Policy.IsBucket(), now)
		}
	}
	if a.used == 0 || a.Resets <= now {
		s.forget(c.Key.String())
		return true
	}
	return s.keepSeen(c.Key.String(), a, now)
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
func (m *Store) RememberCharge(c *limiter.Check, units int64, p *limiter.Policy) {
	now := m.Clock()
	s := m.Lock(p, c.Key.String())
	defer s.Mu.Unlock()
	held, a := kernel.State{}, LastSeen{limit: p.Params.Limit, asOf: c.State.DecidedAt, turn: c.State.Turn}
	if before := s.Seen[c.Key.String()]; before.Resets > now {
		older := c.State.DecidedAt > 0 && a.precedes(&before)
		if older && !before.least {
			return // the answer includes the charge
		}
		if older || c.State.DecidedAt == 0 {
			a.asOf, a.turn = before.asOf, before.turn
		}
		held, a.least = before.Restore(p, now), before.least
	}
	t, k := &p.Params, p.Algorithm.Kernel
	v := k.Decide(k.Charge(held, now/t.Tick, t, units), now/t.Tick, t, 0, 0)
	a.used, a.Resets = t.Capacity-min(max(0, v.Remaining), t.Capacity), now+v.Reset*t.Tick
	a.least = a.least || a.used == t.Capacity
	s.keepSeen(c.Key.String(), a, now) // without room its answer has overflowed
}
