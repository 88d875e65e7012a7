package memory

import (
	"sync"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/kernel"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// Shard is the part of a table behind one lock. Its methods need the lock held. The state of a key
// has three sources, of which Get returns the strictest:
//
//   - plain or logs, whichever the policy's algorithm needs: a state that is kept here;
//   - seen: Redis's last answer, for when it cannot decide. The next take makes it one that is
//     kept here;
//   - spill: states without room of their own, in a fixed number of cells that keys have in
//     common.
type Shard struct {
	Mu    sync.Mutex
	owner *Store
	table *Table
	order int                        // of locking
	Plain map[string]*kernel.Numbers // which a take changes in their place
	Holes map[string]*kernel.Holes   // of a few states in plain; nil before the first
	logs  map[string]*kernel.UnitLog
	Seen  map[string]LastSeen // Redis's last answers; nil before the first
	spill *overflow           // states without room; nil before the first
	Bans  map[string]keptBan  // nil before the first

	running map[string]int64 // units of requests that run, instead of states; nil: the policy counts in windows
}

// Get returns a key's state at an instant in microseconds: the kept one, or another that is stricter; where running
// requests are counted, how many units run.
func (s *Shard) Get(p *limiter.Policy, key string, now int64) kernel.State {
	held, _ := s.find(p, key, now)
	return held
}

// find is [Shard.Get] with the place of the numbers, where the state is these alone; nil: it is not.
func (s *Shard) find(p *limiter.Policy, key string, now int64) (held kernel.State, place *kernel.Numbers) {
	if s.running != nil {
		held.A = s.running[key]
		return held, nil
	}
	if place = s.Plain[key]; place != nil && len(s.Holes)+len(s.Seen) == 0 {
		held.Numbers = *place
		return held, place
	}
	held, found := s.Kept(key)
	if len(s.Seen) > 0 {
		if a, known := s.Seen[key]; known && a.Resets > now {
			held = p.Stricter(held, a.Restore(p, now), now)
		}
	}
	if !found && s.spill != nil {
		held = p.Stricter(held, s.spill.get(key), now)
	}
	return held, nil
}

// Kept returns the state that is kept for a key alone.
func (s *Shard) Kept(key string) (kept kernel.State, found bool) {
	if s.logs != nil {
		log, found := s.logs[key]
		return kernel.State{Log: log}, found
	}
	n := s.Plain[key]
	if n != nil {
		kept.Numbers = *n
	}
	if len(s.Holes) > 0 {
		kept.Holes = s.Holes[key]
	}
	return kept, n != nil
}

// Holds reports whether there is anything of a key: a state, a ban or requests that run.
func (s *Shard) Holds(p *limiter.Policy, key string, now int64) bool {
	_, banned := s.Bans[key]
	return banned || s.Get(p, key, now) != (kernel.State{})
}

// Put keeps a key's state.
func (s *Shard) Put(key string, value kernel.State) {
	if s.logs != nil {
		s.logs[key] = value.Log
		return
	}
	if n := s.Plain[key]; n != nil {
		*n = value.Numbers
	} else {
		s.Plain[key] = new(value.Numbers)
	}
	if value.Holes != nil {
		if s.Holes == nil {
			s.Holes = map[string]*kernel.Holes{}
		}
		s.Holes[key] = value.Holes
	} else if len(s.Holes) > 0 {
		delete(s.Holes, key)
	}
}

// drop deletes all states of a key and reports whether there were any. Keys with the same cell in
// the overflow lose theirs with it.
func (s *Shard) drop(key string) (found bool) {
	if _, found = s.Kept(key); found {
		delete(s.logs, key)
		delete(s.Plain, key)
		delete(s.Holes, key)
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
func (s *Shard) dropAll() int64 {
	found := int64(len(s.Plain) + len(s.logs) + len(s.Seen) + len(s.Bans))
	clear(s.Bans)
	clear(s.Plain)
	s.Holes = nil
	clear(s.logs)
	clear(s.Seen)
	s.dropSpill()
	s.owner.keys.Add(-found)
	return found
}

// show answers a check by the quota at the moment.
func show(held kernel.State, now int64, c *limiter.Check) {
	peek := *c
	peek.Peek = true
	limiter.Answer(c, limiter.Evaluate(held, now, &peek), now)
}

// take charges a passing check and stores its state, at the place that the old one was found at.
func (s *Shard) take(c *limiter.Check, old kernel.State, place *kernel.Numbers, v *kernel.Verdict, now int64) {
	if s.running != nil {
		c.State.RunningUnits = int32(limiter.Units(c))
		s.addRunning(c.Key.String(), limiter.Units(c))
		return
	}
	k := c.Policy.Algorithm.Kernel
	if c.Refundable {
		c.State.Receipt = k.Receipt(*v)
	}
	value := k.Take(old, &c.Policy.Params, *v, c.Refundable)
	if place != nil && value.Holes == nil {
		*place = value.Numbers
		return
	}
	s.Store(c, old, value, now)
}

// addRunning changes the units of a key's running requests. The bound of keys does not apply to them:
// requests that run hold far more memory.
func (s *Shard) addRunning(key string, units int64) {
	before, found := s.running[key]
	switch after := before + units; {
	case after > 0:
		s.running[key] = after
		if !found {
			s.owner.keys.Add(1)
		}
	case found:
		delete(s.running, key)
		s.owner.keys.Add(-1)
	}
}

// settle corrects what a check took by a change, wherever its state is now. A charge needs no room.
func (s *Shard) settle(c *limiter.Check, change limiter.Change, now int64) {
	if change.Stays > 0 {
		s.keepBan(c.Key.String(), keptBan{BanState: c.Policy.Ban.Confirm(s.Bans[c.Key.String()].BanState, now, change.Stays)}, now)
	}
	t, k := &c.Policy.Params, c.Policy.Algorithm.Kernel
	refund := func(held kernel.State) kernel.State {
		return k.Refund(held, now/t.Tick, t, limiter.Units(c), -change.Units, c.State.Receipt)
	}
	switch held, found := s.Kept(c.Key.String()); {
	case change.Units == 0:
	case change.Units > 0:
		old := s.Get(c.Policy, c.Key.String(), now)
		s.Store(c, old, k.Charge(old, now/t.Tick, t, change.Units), now)
	case found:
		s.Put(c.Key.String(), refund(held))
	case s.spill != nil:
		s.spill.put(c.Key.String(), refund(s.spill.get(c.Key.String())))
	}
}

// Store keeps the new state of a check's key, if there is room for one of its own.
func (s *Shard) Store(c *limiter.Check, old, value kernel.State, now int64) {
	if old == (kernel.State{}) || len(s.Seen) > 0 || s.spill != nil {
		s.forget(c.Key.String()) // the value includes the last answer
		if _, found := s.Kept(c.Key.String()); !found && !s.makeRoom(now) {
			s.spillOver(c.Key.String(), value)
			return
		}
	}
	s.Put(c.Key.String(), value)
}

const (
	// sweepSample is how many states each new one visits. Maps are walked from a random key on, so
	// that the fraction of dead states settles below 1/sweepSample.
	sweepSample = 4

	// sweepFull is how many are visited if there is no room, here and elsewhere, in at most
	// sweepShards shards.
	sweepFull   = 32
	sweepShards = 128

	// sweepEvery bounds the work of a flood of keys: after a further sweep that found nothing, that
	// many keys overflow without one.
	sweepEvery = 8
)

// makeRoom counts one more state, if there is room for it.
func (s *Shard) makeRoom(now int64) bool {
	s.sweep(now, sweepSample)
	if s.owner.countState() {
		return true
	}
	if s.owner.skipSweeps.Load() > 0 {
		s.owner.skipSweeps.Add(-1)
		return false
	}
	s.sweep(now, sweepFull)
	s.owner.sweepShards(s, now, sweepFull, (*Shard).sweep)
	if s.owner.countState() {
		return true
	}
	s.owner.skipSweeps.Store(sweepEvery)
	return false
}

// sweep drops those of a few random states that have reset, as Redis's TTL does, and returns how
// many it visited.
func (s *Shard) sweep(now int64, sample int) (visited int) {
	p := s.table.slowest.Load()
	t := &p.Params
	tick, k := now/t.Tick, p.Algorithm.Kernel
	ended := tick - s.owner.Grace/t.Tick
	before := len(s.Plain) + len(s.logs) + len(s.Seen) + len(s.Bans)
	for key, value := range s.Plain {
		if visited++; k.Expires(kernel.State{Numbers: *value}, tick, t) <= ended {
			delete(s.Plain, key)
			delete(s.Holes, key)
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
	if swept := before - len(s.Plain) - len(s.logs) - len(s.Seen) - len(s.Bans); swept > 0 {
		s.owner.keys.Add(int64(-swept))
	}
	return visited
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

// spillOver stores a state without room of its own.
func (s *Shard) spillOver(key string, value kernel.State) {
	if s.spill == nil {
		s.spill = newOverflow(s.logs != nil)
		s.owner.Spills.Add(1)
		s.owner.Sweeps.Start(clock.SweepSpan)
	}
	s.spill.put(key, value)
	s.owner.countOverflow()
}

// dropSpill drops the states without room of their own.
func (s *Shard) dropSpill() {
	if s.spill != nil {
		s.spill = nil
		s.owner.Spills.Add(-1)
	}
}
