package memory

import (
	"math"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/kernel"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// LastSeen is Redis's last answer about a quota, so that an outage is no free refill: the local
// store goes on from the last answer that this node received.
type LastSeen struct {
	used   int64 // units
	limit  int64 // of the answer's policy, by which a bucket drains until it resets
	Resets int64 // local microseconds since the Unix epoch
	at     int64 // when the answer came, likewise
	asOf   int64 // Redis's time at the answer, in microseconds
	turn   int32 // in which Redis answered at that time
	least  bool  // more may be used: no unit was left, of a limit that may have been lower than the next one
}

// outOfOrder is by how much the answers to concurrent requests may differ in Redis's time, in microseconds.
// One that is older by more comes from a clock that was set back, or from another Redis.
const outOfOrder = 1_000_000

// precedes reports whether Redis gave an answer before another one.
func (l *LastSeen) precedes(other *LastSeen) bool {
	if l.asOf == other.asOf {
		return l.turn < other.turn
	}
	return l.asOf < other.asOf && other.asOf-l.asOf < outOfOrder
}

// orStricter returns an answer that leaves no more at an instant than another one about the same quota. Of a bucket it
// is one of the two: what it owes is what drains by the limit of the answer until the reset.
func (l LastSeen) orStricter(other *LastSeen, older, isBucket bool, now int64) LastSeen {
	if l.least = l.least || other.least; !isBucket {
		l.used, l.Resets = max(l.used, other.used), max(l.Resets, other.Resets)
	} else if float64(other.Resets-now)*float64(other.limit) > float64(l.Resets-now)*float64(l.limit) {
		l.used, l.limit, l.Resets = other.used, other.limit, other.Resets
	}
	if older {
		l.asOf, l.turn = other.asOf, other.turn
	}
	return l
}

// Ahead returns the answer with its instants by a clock that is so many microseconds ahead.
func (l LastSeen) Ahead(ahead int64) LastSeen {
	l.Resets, l.at = l.Resets+ahead, l.at+ahead
	return l
}

// Restore rebuilds a state from an answer, for the policy or one that is scaled from it. Where the clock was set back
// since, the state is that of the answer's instant, and the kernels judge it as any other that was stored ahead of now.
func (l LastSeen) Restore(p *limiter.Policy, now int64) kernel.State {
	t := &p.Params
	now = max(now, l.at)
	used, limit := l.used, l.limit
	if t.Fraction > 0 {
		used, limit = int64(math.Ceil(float64(used)*t.Fraction)), max(1, int64(float64(limit)*t.Fraction))
	}
	resets := kernel.CeilDiv(l.Resets, t.Tick)
	if p.IsBucket() && limit != t.Limit {
		return kernel.RestoreBucket(used, limit, resets, now/t.Tick, t)
	}
	return p.Algorithm.Kernel.RestoreState(min(used, t.Capacity), resets, now/t.Tick, t)
}

// Remember keeps the answer to a check that Redis decided, if there is room.
func (m *Store) Remember(c *limiter.Check) { m.RememberLease(c, 0) }

// RememberLease keeps the answer to a check that Redis decided, after some of the units that remained were leased.
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
	if !s.keepAnswer(c, leased, now) {
		s.owner.countOverflow() // an outage would begin with a whole quota
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
		s.keepAnswer(c, 0, m.Clock())
	}
}

// keepAnswer keeps the quota of an answer, unless Redis gave the one that is kept later, and reports whether
// there is room for it.
func (s *Shard) keepAnswer(c *limiter.Check, leased, now int64) bool {
	a := LastSeen{used: c.Policy.Params.Capacity - c.Unused() + leased, limit: c.Policy.Params.Limit,
		Resets: now + c.Result.ResetAfter.Microseconds(), at: now,
		asOf: c.State.DecidedAt, turn: c.State.Turn, least: c.Unused() == 0}
	// What came later than now was timed by a clock that was set back since.
	if before, known := s.Seen[c.Key.String()]; known && before.Resets > now && before.at-now < outOfOrder {
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
	held, a := kernel.State{}, LastSeen{limit: p.Params.Limit, at: now, asOf: c.State.DecidedAt, turn: c.State.Turn}
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
