package limiter

// This file is the part of policies that count running requests in this process. A [Memory] knows the
// requests that this process runs, whatever store has let them through: they are what it decides by in
// an outage too.

// EndRunning does what [Failover.EndRunning] does.
func (m *Memory) EndRunning(checks []Check) {
	for i := range checks {
		c := &checks[i]
		if keptOf(c).Places > 0 {
			m.addRunning(c, -int64(keptOf(c).Places))
			keptOf(c).Places = 0
		}
	}
}

// startRunning counts what the shared store let through.
func (m *Memory) startRunning(checks []Check) {
	for i := range checks {
		if c := &checks[i]; keptOf(c).Places > 0 {
			m.addRunning(c, int64(keptOf(c).Places))
		}
	}
}

// Running returns the units of the requests that run under the policy of that name.
func (m *Memory) Running(policy string) (units int64) {
	m.eachShardOf(policy, func(s *shard) {
		if s.countsRunning() {
			for _, n := range s.plain {
				units += n.A
			}
		}
	})
	return units
}

// addRunning changes the units of a key's running requests.
func (m *Memory) addRunning(c *Check, units int64) {
	s := m.lock(c.Policy, c.Key.String())
	defer s.mu.Unlock()
	s.addRunning(c.Key.String(), units)
}

// countsRunning reports whether the shard's table is of a policy that counts running requests.
func (s *shard) countsRunning() bool { return s.table.slowest.Load().CountsRunning() }

// addRunning changes the units of a key's running requests. The bound of keys does not apply to them:
// requests that run hold far more memory.
func (s *shard) addRunning(key string, units int64) {
	n, found := s.plain[key]
	switch n.A += units; {
	case n.A > 0:
		s.plain[key] = n
		if !found {
			s.owner.keys.Add(1)
		}
	case found:
		delete(s.plain, key)
		s.owner.keys.Add(-1)
	}
}
