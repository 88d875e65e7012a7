package memory

import "github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"

// This file is the part of policies that count running requests in this process. A [Store] knows the
// requests that this process runs, whatever store has let them through: they are what it decides by in
// an outage too.

// EndRunning does what [failover.Store.EndRunning] does.
func (m *Store) EndRunning(checks []limiter.Check) {
	for i := range checks {
		c := &checks[i]
		if limiter.KeptOf(c).Places > 0 {
			m.AddRunning(c, -int64(limiter.KeptOf(c).Places))
			limiter.KeptOf(c).Places = 0
		}
	}
}

// StartRunning counts what the shared store let through.
func (m *Store) StartRunning(checks []limiter.Check) {
	for i := range checks {
		if c := &checks[i]; limiter.KeptOf(c).Places > 0 {
			m.AddRunning(c, int64(limiter.KeptOf(c).Places))
		}
	}
}

// Running returns the units of the requests that run under the policy of that name.
func (m *Store) Running(policy string) (units int64) {
	m.eachShardOf(policy, func(s *Shard) {
		if s.countsRunning() {
			for _, n := range s.Plain {
				units += n.A
			}
		}
	})
	return units
}

// AddRunning changes the units of a key's running requests.
func (m *Store) AddRunning(c *limiter.Check, units int64) {
	s := m.Lock(c.Policy, c.Key.String())
	defer s.Mu.Unlock()
	s.addRunning(c.Key.String(), units)
}

// countsRunning reports whether the shard's table is of a policy that counts running requests.
func (s *Shard) countsRunning() bool { return s.table.slowest.Load().CountsRunning() }

// addRunning changes the units of a key's running requests. The bound of keys does not apply to them:
// requests that run hold far more memory.
func (s *Shard) addRunning(key string, units int64) {
	n, found := s.Plain[key]
	switch n.A += units; {
	case n.A > 0:
		s.Plain[key] = n
		if !found {
			s.owner.keys.Add(1)
		}
	case found:
		delete(s.Plain, key)
		s.owner.keys.Add(-1)
	}
}
