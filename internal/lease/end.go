package lease

import (
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// End ends the leases of a key in some policies. Their units are given back, unless the state that the units were taken
// from is gone.
func (t *Table) End(key string, ends func(*limiter.Policy) bool, why busyState) {
	if t != nil {
		t.endIn(t.Shards.Of(key), func(k *BusyKey) bool { return k.Key == key && ends(k.Policy) }, why)
	}
}

// EndAll ends the leases of all keys in some policies.
func (t *Table) EndAll(ends func(*limiter.Policy) bool, why busyState) {
	if t == nil {
		return
	}
	for s := range t.Shards.All() {
		t.endIn(s, func(k *BusyKey) bool { return ends(k.Policy) }, why)
	}
}

// Close ends all leases. The table leases nothing afterwards.
func (t *Table) Close() {
	if t == nil {
		return
	}
	for s := range t.Shards.All() {
		s.Mu.Lock()
		s.closed = true
		s.Mu.Unlock()
		t.endIn(s, func(*BusyKey) bool { return true }, KeyEnded)
	}
}

// endIn ends the leases of some keys of a shard.
func (t *Table) endIn(s *leaseShard, ends func(*BusyKey) bool, why busyState) {
	type endedKey struct {
		key    *BusyKey
		leases []HeldUnits
		usedUp int64
	}
	var ended []endedKey
	s.Mu.Lock()
	for name, k := range s.Busy {
		if !ends(k) {
			continue
		}
		ended = append(ended, endedKey{k, append([]HeldUnits(nil), k.Leases[:k.Open]...), k.takeUsedUp()})
		k.Leases, k.Open, k.gone = [2]HeldUnits{}, 0, why
		k.expiry.Stop()
		delete(s.Busy, name)
	}
	s.Mu.Unlock()
	for _, e := range ended {
		t.Count(e.key, limiter.LeaseSpent, e.usedUp)
		if why == KeyEnded {
			t.giveBackAll(e.key, e.leases)
			continue
		}
		for _, l := range e.leases {
			t.Count(e.key, limiter.LeaseSpent, l.units-l.Left)
			t.Count(e.key, limiter.LeaseLapsed, l.Left)
		}
	}
}

// Named returns a function that reports whether a policy has a name.
func Named(policy string) func(*limiter.Policy) bool {
	return func(p *limiter.Policy) bool { return p.Name() == policy }
}

// OfState returns a function that reports whether a policy counts in the states of that ID.
func OfState(id string) func(*limiter.Policy) bool {
	return func(p *limiter.Policy) bool { return p.ID == id }
}

// Held returns how many leased units of a key are left under the policies of a name, and how long they last at most.
func (t *Table) Held(policy, key string) (units int64, lasts time.Duration) {
	if t == nil {
		return 0, 0
	}
	s := t.Shards.Of(key)
	s.Mu.Lock()
	defer s.Mu.Unlock()
	now := t.Now()
	for _, k := range s.Busy {
		if k.Key != key || k.Policy.Name() != policy {
			continue
		}
		for _, l := range k.Leases[:k.Open] {
			if left := l.Until.Since(now); left > 0 {
				units, lasts = units+l.Left, max(lasts, left)
			}
		}
	}
	return units, lasts
}
