package memory

import (
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// This file counts running requests in this process. A [Store] has all that run here, whatever store has let them
// through, and decides by them in an outage too.

// EndRunning does what failover.Store.EndRunning does.
func (m *Store) EndRunning(checks []limiter.Check) {
	for i := range checks {
		c := &checks[i]
		if c.State.RunningUnits > 0 {
			m.AddRunning(c, -int64(c.State.RunningUnits))
			c.State.RunningUnits = 0
		}
	}
}

// StartRunning counts what the shared store let through.
func (m *Store) StartRunning(checks []limiter.Check) {
	for i := range checks {
		if c := &checks[i]; c.State.RunningUnits > 0 {
			m.AddRunning(c, int64(c.State.RunningUnits))
		}
	}
}

// Running returns the units of the requests that run under the policy of that name.
func (m *Store) Running(policy string) (units int64) {
	m.eachShardOf(policy, func(s *Shard) {
		for _, n := range s.running {
			units += n
		}
	})
	return units
}

// RunsAll reports whether as many units of a check's key run here as its policy allows on all nodes.
func (m *Store) RunsAll(c *limiter.Check) bool {
	if !c.Policy.CountsRunning || c.Peek || limiter.NeverPasses(c) {
		return false
	}
	s := m.Lock(c.Policy, c.Key.String())
	defer s.Mu.Unlock()
	return s.running[c.Key.String()] >= c.Policy.Params.Limit
}

// AddRunning changes the units of a key's running requests.
func (m *Store) AddRunning(c *limiter.Check, units int64) {
	s := m.Lock(c.Policy, c.Key.String())
	defer s.Mu.Unlock()
	s.addRunning(c.Key.String(), units)
}
