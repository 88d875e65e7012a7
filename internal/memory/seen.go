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

// Restore rebuilds a state from an answer, for the policy or one that is scaled from it.
func (l LastSeen) Restore(p *limiter.Policy, now int64) kernel.State {
	t := &p.Params
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
