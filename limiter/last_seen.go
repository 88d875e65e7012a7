package limiter

import "math"

// lastSeen is what Redis last said of a share, so that an outage is no free refill: the local store
// goes on from what this node has seen.
type lastSeen struct {
	used   int64 // units
	resets int64 // local microseconds since the Unix epoch
	at     int64 // the same: when it was heard
}

// outOfOrder is how long, in microseconds, the fuller of two answers is kept: those to requests of
// one moment are not heard in the order that Redis gave them in.
const outOfOrder = 1_000_000

// remember keeps the answer to a check that Redis decided. Where there is no room, nothing.
func (m *Memory) remember(c *Check) {
	now := m.clock()
	a := lastSeen{used: c.Policy.params.capacity - c.Result.Remaining, resets: now + c.Result.ResetAfter.Microseconds(), at: now}
	s := m.lock(c.Policy, c.Key)
	defer s.mu.Unlock()
	if a.used == 0 || a.resets <= now {
		return // what was seen before ends by itself
	}
	before, known := s.seen[c.Key]
	if !known && !s.makeRoom(now) {
		return
	}
	if known && before.at <= now && now-before.at < outOfOrder && before.resets > now && before.used > a.used {
		a.used, a.at = before.used, before.at
	}
	if s.seen == nil {
		s.seen = map[string]lastSeen{}
	}
	s.seen[c.Key] = a
}

// forget forgets what was seen of a key and tells whether that was anything.
func (s *shard) forget(key string) bool {
	if _, known := s.seen[key]; !known {
		return false
	}
	delete(s.seen, key)
	s.owner.keys.Add(-1)
	return true
}

// sweepSeen forgets those of a few random answers that tell of nothing any more, and tells how many
// it has looked at.
func (s *shard) sweepSeen(now int64, sample int) (looked int) {
	for key, a := range s.seen {
		if looked++; a.resets <= now {
			delete(s.seen, key)
		}
		if looked >= sample {
			break
		}
	}
	return looked
}

// restore makes a share of an answer, for a policy that may be a part of the one that it is about.
func (l lastSeen) restore(p *Policy, now int64) state {
	t := &p.params
	used := l.used
	if p.fraction > 0 {
		used = int64(math.Ceil(float64(used) * p.fraction))
	}
	return p.algorithm.kernel.restoreState(min(used, t.capacity), ceilDiv(l.resets, t.tick), now/t.tick, t)
}

// fuller is the one of two shares that leaves less at an instant in microseconds.
func (p *Policy) fuller(a, b state, now int64) state {
	t, kernel := &p.params, p.algorithm.kernel
	x, y := kernel.decide(a, now/t.tick, t, 0), kernel.decide(b, now/t.tick, t, 0)
	if y.remaining < x.remaining || (y.remaining == x.remaining && y.reset > x.reset) {
		return b
	}
	return a
}

// windowsBy is how many windows have ended when a share resets. An answer that was on its way for a
// moment, from a clock slightly behind this one, seems to reset slightly after the boundary that it does
// reset at; taken for the next one it would cost a client a whole window.
func windowsBy(resets int64, t *params) int64 {
	const moment = 20 // of a window
	return ceilDiv(resets-t.window/moment, t.window)
}
