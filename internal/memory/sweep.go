package memory

import (
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/kernel"
)

// This file drops dead states if no new keys arrive: those make room for themselves (makeRoom), but a site
// that went quiet would keep the states of its last clients.

const (
	// sweptPerSpan is how many states of a [Store] a slow sweep visits, and sweptPerLock how many of them
	// under one lock: well under a millisecond of work, in parts of less than a tenth of that.
	sweptPerSpan = 4096
	sweptPerLock = 512
)

// sweepSome drops some of the dead states, again and again while any states are left.
func (m *Store) sweepSome() {
	m.sweepShards(nil, m.Clock(), sweptPerSpan, (*Shard).sweepSlowly)
	if m.keys.Load() > 0 || m.Spills.Load() > 0 {
		m.Sweeps.Start(clock.SweepSpan)
	}
}

// sweepSlowly does what sweep does, and frees the memory of what is empty then.
func (s *Shard) sweepSlowly(now int64, sample int) (visited int) {
	visited = s.Sweep(now, min(sample, sweptPerLock))
	if visited > 0 {
		s.shrink()
	}
	if s.spill != nil && s.spill.all(s.hasEnded(now)) {
		s.dropSpill()
	}
	return visited
}

// shrink frees the memory of maps that are empty: a map keeps the room that it once needed.
func (s *Shard) shrink() {
	if s.Plain != nil && len(s.Plain) == 0 {
		s.Plain, s.Holes = map[string]kernel.Numbers{}, nil
	}
	if s.logs != nil && len(s.logs) == 0 {
		s.logs = map[string]*kernel.UnitLog{}
	}
	if len(s.Seen) == 0 {
		s.Seen = nil
	}
	if len(s.Bans) == 0 {
		s.Bans = nil
	}
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
