package limiter

import "math"

// lastSeen is Redis's last answer about a quota, so that an outage is no free refill: the local
// store goes on from the last answer that this node received.
type lastSeen struct {
	used   int64 // units
	resets int64 // local microseconds since the Unix epoch
	at     int64 // when it arrived, in the same unit
}

// outOfOrder is how long, in microseconds, an answer is kept where a later one leaves more: the
// answers to concurrent requests arrive in any order.
const outOfOrder = 1_000_000

// remember keeps the answer to a check that Redis decided, if there is room.
func (m *Memory) remember(c *Check) { m.rememberLease(c, 0) }

// rememberLease does so where so many of the units that remained were leased.
func (m *Memory) rememberLease(c *Check, leased int64) {
	if c.Policy.CountsRunning() {
		return // what other nodes run changes without end
	}
	now := m.clock()
	a := lastSeen{used: c.Policy.params.capacity - c.Unused() + leased, resets: now + c.Result.ResetAfter.Microseconds(), at: now}
	s := m.lock(c.Policy, c.Key.text)
	defer s.mu.Unlock()
	if c.Policy.ban != nil {
		s.rememberBan(c, now)
	}
	if c.Result.Banned {
		return // what is left besides is unknown, and only decays meanwhile
	}
	if a.used == 0 || a.resets <= now {
		return // an older answer expires by itself
	}
	before, known := s.seen[c.Key.text]
	// An answer without a unit left says of what is used only that it is no less than a limit, which may have
	// been lower than that of the one before.
	if known && before.at <= now && before.resets > now && (now-before.at < outOfOrder || c.Unused() == 0) {
		a = a.orFuller(before)
	}
	if !s.keepSeen(c.Key.text, a, now) {
		s.owner.overflows() // an outage would begin with a whole quota
	}
}

// keepSeen stores what is used of a key, and reports whether there is room for it.
func (s *shard) keepSeen(key string, a lastSeen, now int64) bool {
	if _, known := s.seen[key]; !known && !s.makeRoom(now) {
		return false
	}
	if s.seen == nil {
		s.seen = map[string]lastSeen{}
	}
	s.seen[key] = a
	return true
}

// rememberCharge adds units that Redis has charged after its last answer about a key, if there is room. The policy is
// the check's, with calendar periods by this process's clock.
func (m *Memory) rememberCharge(c *Check, p *Policy) {
	if p.CountsRunning() {
		return
	}
	now := m.clock()
	s := m.lock(p, c.Key.text)
	defer s.mu.Unlock()
	held := state{}
	if before := s.seen[c.Key.text]; before.resets > now {
		held = before.restore(p, now)
	}
	t, kernel := &p.params, p.algorithm.kernel
	v := kernel.decide(kernel.charge(held, now/t.tick, t, c.Weight), now/t.tick, t, 0, 0)
	s.keepSeen(c.Key.text, lastSeen{used: t.capacity - min(max(0, v.remaining), t.capacity), resets: now + v.reset*t.tick, at: now}, now) // without room its answer has overflowed
}

// orFuller returns an answer that leaves no more than the one that arrived before it. A bucket is as full
// as its reset says.
func (l lastSeen) orFuller(before lastSeen) lastSeen {
	if before.used > l.used || before.resets > l.resets {
		l.at = before.at
	}
	l.used, l.resets = max(l.used, before.used), max(l.resets, before.resets)
	return l
}

// forget drops the last answer about a key and reports whether there was one.
func (s *shard) forget(key string) bool {
	if _, known := s.seen[key]; !known {
		return false
	}
	delete(s.seen, key)
	s.owner.keys.Add(-1)
	return true
}

// sweepSeen drops those of a few random answers whose quota has reset, and returns how many it
// visited.
func (s *shard) sweepSeen(now int64, sample int) (visited int) {
	for key, a := range s.seen {
		if visited++; a.resets <= now {
			delete(s.seen, key)
		}
		if visited >= sample {
			break
		}
	}
	return visited
}

// restore rebuilds a state from an answer, for the policy or one that is scaled from it.
func (l lastSeen) restore(p *Policy, now int64) state {
	t := &p.params
	used := l.used
	if p.fraction > 0 {
		used = int64(math.Ceil(float64(used) * p.fraction))
	}
	return p.algorithm.kernel.restoreState(min(used, t.capacity), ceilDiv(l.resets, t.tick), now/t.tick, t)
}

// fuller returns the state that leaves less of two at an instant in microseconds.
func (p *Policy) fuller(a, b state, now int64) state {
	t, kernel := &p.params, p.algorithm.kernel
	x, y := kernel.decide(a, now/t.tick, t, 0, 0), kernel.decide(b, now/t.tick, t, 0, 0)
	if y.remaining < x.remaining || (y.remaining == x.remaining && y.reset > x.reset) {
		return b
	}
	return a
}

// windowsBy returns how many windows have ended when a state resets. Transit time, or a clock
// slightly behind this one, moves a reset slightly past the boundary that it is at; counted for the
// next window it would cost a client a whole window.
func windowsBy(resets int64, t *params) int64 {
	const tolerance = 20 // a twentieth of a window
	return ceilDiv(resets-t.window/tolerance, t.window)
}
