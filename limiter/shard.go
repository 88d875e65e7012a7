package limiter

import (
	"sync"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/kernel"
)

// shard is the part of a table behind one lock. Its methods need the lock held. The state of a key
// may come from three places, of which get takes the fullest:
//
//   - plain or logs, whichever the policy's algorithm needs: a state that is kept here;
//   - seen: Redis's last answer, for when it cannot decide. The next take moves it to the first
//     place;
//   - spill: states without a place of their own, in a fixed number of places that keys have in
//     common.
type shard struct {
	mu    sync.Mutex
	owner *Memory
	table *table
	order int // locks are taken in this order
	plain map[string]kernel.Numbers
	holes map[string]*kernel.Holes // of a few states in plain; nil before the first
	logs  map[string]*kernel.UnitLog
	seen  map[string]lastSeen // Redis's last answers; nil before the first
	spill *overflow           // states without room; nil before the first
	bans  map[string]keptBan  // nil before the first
}

// get returns a key's state at an instant in microseconds: the kept one, or another that is fuller.
func (s *shard) get(p *Policy, key string, now int64) kernel.State {
	kept, found := s.kept(key)
	if len(s.seen) > 0 {
		if a, known := s.seen[key]; known && a.resets > now {
			kept = p.Rule().Stricter(kept, a.restore(p, now), now)
		}
	}
	if !found && s.spill != nil {
		kept = p.Rule().Stricter(kept, s.spill.get(key), now)
	}
	return kept
}

// kept returns the state that is kept for a key alone.
func (s *shard) kept(key string) (kept kernel.State, found bool) {
	if s.logs != nil {
		log, found := s.logs[key]
		return kernel.State{Log: log}, found
	}
	n, found := s.plain[key]
	kept.Numbers = n
	if len(s.holes) > 0 {
		kept.Holes = s.holes[key]
	}
	return kept, found
}

func (s *shard) put(key string, value kernel.State) {
	if s.logs != nil {
		s.logs[key] = value.Log
		return
	}
	s.plain[key] = value.Numbers
	if value.Holes != nil {
		if s.holes == nil {
			s.holes = map[string]*kernel.Holes{}
		}
		s.holes[key] = value.Holes
	} else if len(s.holes) > 0 {
		delete(s.holes, key)
	}
}

// drop deletes all states of a key and reports whether there were any. Keys with the same place in
// the overflow lose theirs with it.
func (s *shard) drop(key string) (found bool) {
	if _, found = s.kept(key); found {
		delete(s.logs, key)
		delete(s.plain, key)
		delete(s.holes, key)
		s.owner.keys.Add(-1)
	}
	if s.forget(key) {
		found = true
	}
	if s.unban(key) {
		found = true
	}
	return s.spill.drop(key) || found
}

// dropAll deletes all states and returns how many there were.
func (s *shard) dropAll() int64 {
	found := int64(len(s.plain) + len(s.logs) + len(s.seen) + len(s.bans))
	clear(s.bans)
	clear(s.plain)
	s.holes = nil
	clear(s.logs)
	clear(s.seen)
	s.dropSpill()
	s.owner.keys.Add(-found)
	return found
}

// take charges a passing check and stores its state.
func (s *shard) take(c *Check, old kernel.State, v kernel.Verdict, now int64) {
	if c.Policy.CountsRunning() {
		keptOf(c).Places = int32(unitsOf(c))
		s.addRunning(c.Key.String(), unitsOf(c))
		return
	}
	s.store(c, old, c.Policy.Rule().Algorithm.Kernel.Take(old, &c.Policy.Rule().Params, v, c.Refundable), now)
}

// settle corrects what a check took by its change, wherever its state is now. A charge needs no room.
func (s *shard) settle(c *Check, now int64) {
	if keptOf(c).Stays > 0 {
		s.keepBan(c.Key.String(), keptBan{BanState: c.Policy.Rule().Ban.Confirm(s.bans[c.Key.String()].BanState, now, keptOf(c).Stays)}, now)
	}
	t, k := &c.Policy.Rule().Params, c.Policy.Rule().Algorithm.Kernel
	refund := func(held kernel.State) kernel.State {
		return k.Refund(held, now/t.Tick, t, unitsOf(c), -keptOf(c).Change, keptOf(c).Receipt)
	}
	switch held, found := s.kept(c.Key.String()); {
	case keptOf(c).Change == 0 || c.Policy.CountsRunning():
	case keptOf(c).Change > 0:
		old := s.get(c.Policy, c.Key.String(), now)
		s.store(c, old, k.Charge(old, now/t.Tick, t, keptOf(c).Change), now)
	case found:
		s.put(c.Key.String(), refund(held))
	case s.spill != nil:
		s.spill.put(c.Key.String(), refund(s.spill.get(c.Key.String())))
	}
}

// store keeps the new state of a check's key, where there is room in a place of its own.
func (s *shard) store(c *Check, old, value kernel.State, now int64) {
	if old == (kernel.State{}) || len(s.seen) > 0 || s.spill != nil {
		s.forget(c.Key.String()) // the value includes the last answer
		if _, found := s.kept(c.Key.String()); !found && !s.makeRoom(now) {
			s.spillOver(c.Key.String(), value)
			return
		}
	}
	s.put(c.Key.String(), value)
}

const (
	// sweepSample is how many states each new one visits. Maps are walked from a random place, so
	// that the fraction of dead states settles below 1/sweepSample.
	sweepSample = 4

	// sweepFull is how many are visited where there is no room, here and elsewhere, in at most
	// sweepShards shards.
	sweepFull   = 32
	sweepShards = 128

	// sweepEvery bounds the work of a flood of keys: after a further sweep that found nothing, that
	// many keys overflow without one.
	sweepEvery = 8
)

// makeRoom counts one more state, if there is room for it.
func (s *shard) makeRoom(now int64) bool {
	s.sweep(now, sweepSample)
	if s.owner.admit() {
		return true
	}
	if s.owner.skipSweeps.Load() > 0 {
		s.owner.skipSweeps.Add(-1)
		return false
	}
	s.sweep(now, sweepFull)
	s.owner.sweepShards(s, now, sweepFull, (*shard).sweep)
	if s.owner.admit() {
		return true
	}
	s.owner.skipSweeps.Store(sweepEvery)
	return false
}

// sweep drops those of a few random states that have reset, as Redis's TTL does, and returns how
// many it visited.
func (s *shard) sweep(now int64, sample int) (visited int) {
	p := s.table.slowest.Load()
	t := &p.Rule().Params
	tick, k := now/t.Tick, p.Rule().Algorithm.Kernel
	ended := tick - s.owner.grace/t.Tick
	before := len(s.plain) + len(s.logs) + len(s.seen) + len(s.bans)
	for key, value := range s.plain {
		if visited++; k.Expires(kernel.State{Numbers: value}, tick, t) <= ended {
			delete(s.plain, key)
			delete(s.holes, key)
		}
		if visited >= sample {
			break
		}
	}
	for key, value := range s.logs {
		if visited++; k.Expires(kernel.State{Log: value}, tick, t) <= ended {
			delete(s.logs, key)
		}
		if visited >= sample {
			break
		}
	}
	visited += s.sweepSeen(now, sample) + s.sweepBans(now, sample)
	if swept := before - len(s.plain) - len(s.logs) - len(s.seen) - len(s.bans); swept > 0 {
		s.owner.keys.Add(int64(-swept))
	}
	return visited
}
