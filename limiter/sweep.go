package limiter

import "github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/kernel"

// This file drops dead states where no new keys arrive: those make room for themselves (makeRoom), but a site
// that went quiet would keep the states of its last clients.

const (

	// sweptPerSpan is how many states of a [Memory] a slow sweep visits, and sweptPerLock how many of them
	// under one lock: well under a millisecond of work, in parts of less than a tenth of that.
	sweptPerSpan = 4096
	sweptPerLock = 512
)

// sweepSome drops some of the dead states, and reports whether any states are left.
func (m *Memory) sweepSome() (left bool) {
	m.sweepShards(nil, m.clock(), sweptPerSpan, (*shard).sweepSlowly)
	return m.keys.Load() > 0 || m.spills.Load() > 0
}

// sweepSlowly does what sweep does, and frees the memory of what is empty then.
func (s *shard) sweepSlowly(now int64, sample int) (visited int) {
	visited = s.sweep(now, min(sample, sweptPerLock))
	if visited > 0 {
		s.shrink()
	}
	if s.spill != nil && s.spill.all(s.hasEnded(now)) {
		s.dropSpill()
	}
	return visited
}

// shrink frees the memory of maps that are empty: a map keeps the room that it once needed.
func (s *shard) shrink() {
	if s.plain != nil && len(s.plain) == 0 {
		s.plain, s.holes = map[string]kernel.Numbers{}, nil
	}
	if s.logs != nil && len(s.logs) == 0 {
		s.logs = map[string]*kernel.UnitLog{}
	}
	if len(s.seen) == 0 {
		s.seen = nil
	}
	if len(s.bans) == 0 {
		s.bans = nil
	}
}
