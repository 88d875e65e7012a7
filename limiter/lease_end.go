package limiter

import (
	"hash/maphash"
	"time"
)

// end ends the leases of a key in some policies. They are given back, unless the states that they were
// taken from are gone.
func (t *leaseTable) end(key string, ends func(*Policy) bool, why busyState) {
	if t != nil {
		t.endIn(&t.shards[maphash.String(t.seed, key)%leaseShards], func(k *busyKey) bool { return k.key == key && ends(k.policy) }, why)
	}
}

// endAll ends the leases of all keys in some policies.
func (t *leaseTable) endAll(ends func(*Policy) bool, why busyState) {
	if t == nil {
		return
	}
	for i := range t.shards {
		t.endIn(&t.shards[i], func(k *busyKey) bool { return ends(k.policy) }, why)
	}
}

// close ends all leases for good.
func (t *leaseTable) close() {
	if t == nil {
		return
	}
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		s.closed = true
		s.mu.Unlock()
		t.endIn(s, func(*busyKey) bool { return true }, keyEnded)
	}
}

// endIn ends the leases of some keys of a shard.
func (t *leaseTable) endIn(s *leaseShard, ends func(*busyKey) bool, why busyState) {
	type endedKey struct {
		key    *busyKey
		leases []heldUnits
		usedUp int64
	}
	var ended []endedKey
	s.mu.Lock()
	for name, k := range s.busy {
		if !ends(k) {
			continue
		}
		ended = append(ended, endedKey{k, append([]heldUnits(nil), k.leases[:k.open]...), k.takeUsedUp()})
		k.leases, k.open, k.gone = [2]heldUnits{}, 0, why
		if k.timer != nil {
			k.timer.Stop()
		}
		delete(s.busy, name)
	}
	s.mu.Unlock()
	for _, e := range ended {
		t.count(e.key, LeaseSpent, e.usedUp)
		if why == keyEnded {
			t.giveBackAll(e.key, e.leases)
			continue
		}
		for _, l := range e.leases {
			t.count(e.key, LeaseSpent, l.units-l.left)
			t.count(e.key, LeaseLapsed, l.left)
		}
	}
}

// named returns a function that reports whether a policy has a name.
func named(policy string) func(*Policy) bool {
	return func(p *Policy) bool { return p.Name() == policy }
}

// ofState returns a function that reports whether a policy counts in the states of an ID.
func ofState(id string) func(*Policy) bool {
	return func(p *Policy) bool { return p.Rule().ID == id }
}

// held returns the units of a key that are left under the policies of a name, and for how long at most.
func (t *leaseTable) held(policy, key string) (units int64, lasts time.Duration) {
	if t == nil {
		return 0, 0
	}
	s := &t.shards[maphash.String(t.seed, key)%leaseShards]
	s.mu.Lock()
	defer s.mu.Unlock()
	now := t.now()
	for _, k := range s.busy {
		if k.key != key || k.policy.Name() != policy {
			continue
		}
		for _, l := range k.leases[:k.open] {
			if left := l.until.Since(now); left > 0 {
				units, lasts = units+l.left, max(lasts, left)
			}
		}
	}
	return units, lasts
}
