package limiter

import "time"

// This file is the part of policies that count running requests in this process. A [Memory] knows the
// requests that this process runs, whatever store has let them through: they are what it decides by in
// an outage too.

const (
	// MinNodeTimeout is the shortest [Settings].NodeTimeout.
	MinNodeTimeout = 5 * time.Second

	// MaxNodeTimeout is the longest one.
	MaxNodeTimeout = 10 * time.Minute

	// DefaultNodeTimeout is what a NodeTimeout of 0 means.
	DefaultNodeTimeout = 15 * time.Second

	// maxRunning is the largest [Settings].MaxConcurrent.
	maxRunning = 1_000_000_000
)

// CountsRunning reports whether the policy counts the requests that run ([Settings].MaxConcurrent). A
// caller that lets a request through has to call [Failover.EndRunning] when it ends.
func (p *Policy) CountsRunning() bool { return p.algorithm.running }

// endsEarly reports whether a denial may end before its RetryAfter.
func (p *Policy) endsEarly() bool { return p.refunds.Load() || p.CountsRunning() }

// nodeTimeout returns the node timeout that applies; 0 without MaxConcurrent.
func (s *Settings) nodeTimeout() time.Duration {
	if s.NodeTimeout == 0 && s.MaxConcurrent != 0 {
		return DefaultNodeTimeout
	}
	return s.NodeTimeout
}

// checkRunning reports what is wrong with the settings of a policy that counts running requests, or with one
// that has a node timeout without it.
func (s *Settings) checkRunning() error {
	switch {
	case s.MaxConcurrent == 0:
		return &FieldError{"NodeTimeout, MaxConcurrent", "", "the first belongs to the second; leave it out, or set both"}
	case s.MaxConcurrent < 0 || s.MaxConcurrent > maxRunning:
		return &FieldError{"MaxConcurrent", decimal(s.MaxConcurrent), "use a whole number from 1 to " + decimal(maxRunning)}
	case s.nodeTimeout() < MinNodeTimeout || s.NodeTimeout > MaxNodeTimeout || s.NodeTimeout%time.Microsecond != 0:
		return &FieldError{"NodeTimeout", s.NodeTimeout.String(), "use a duration from 5s to 10m, in whole microseconds"}
	}
	for _, other := range []struct {
		field string
		given bool
	}{
		{"Limit", s.Limit != 0}, {"Window", s.Window != 0 || s.Calendar != ""}, {"Location", s.Location != nil}, {"Algorithm", s.Algorithm != ""},
		{"Burst", s.Burst != 0}, {"MaxDelay", s.MaxDelay != nil}, {"Ban", len(s.Ban) > 0 || s.BanAfter != 0}, {"Lease", s.Lease != 0},
	} {
		if other.given {
			return besideRunning(other.field)
		}
	}
	return nil
}

// besideRunning returns the error of what has no meaning beside MaxConcurrent.
func besideRunning(field string) error {
	return &FieldError{field + ", MaxConcurrent", "", "a request counts from its start to its end, whatever came before it and whatever its response is; leave out one of them, or give each a policy of its own"}
}

// EndRunning ends a request that was let through, once it does not run any more: its checks return the
// units that they have of policies that count running requests. Other checks, and those of a request
// that was denied, it leaves alone. It takes the checks as the decision has left them, or copies of
// them, and must be called at most once. It does not wait.
func (f *Failover) EndRunning(checks []Check) {
	for i := range checks {
		c := &checks[i]
		if c.places > 0 {
			f.local.addRunning(c, -c.places)
		}
	}
	if f.shared != nil {
		f.shared.EndRunning(checks)
	}
	for i := range checks {
		checks[i].places = 0
	}
}

// EndRunning does what [Failover.EndRunning] does.
func (m *Memory) EndRunning(checks []Check) {
	for i := range checks {
		c := &checks[i]
		if c.places > 0 {
			m.addRunning(c, -c.places)
			c.places = 0
		}
	}
}

// forgetRunning makes checks that may have been decided before have no part in what runs, and no receipt.
func forgetRunning(checks []Check) {
	for i := range checks {
		checks[i].places, checks[i].run, checks[i].receipt = 0, nil, receipt{}
	}
}

// startRunning counts what the shared store let through.
func (m *Memory) startRunning(checks []Check) {
	for i := range checks {
		if c := &checks[i]; c.places > 0 {
			m.addRunning(c, c.places)
		}
	}
}

// letRun counts a request that is let through without a decision. Where Redis decides, no request of more
// than the limit passes: here it counts for the limit, so that no weight fills the numbers of all nodes.
func (f *Failover) letRun(checks []Check) {
	for i := range checks {
		if c := &checks[i]; c.Policy.CountsRunning() && !c.Peek {
			c.places = min(c.units(), c.Policy.Capacity())
		}
	}
	f.local.startRunning(checks)
	f.shared.letRun(checks)
}

// Running returns the units of the requests that this process runs under the policy of that name, by
// any store. 0 for a policy that does not count them.
func (f *Failover) Running(policy string) int64 { return f.local.Running(policy) }

// Running returns the units of the requests that run under the policy of that name.
func (m *Memory) Running(policy string) (units int64) {
	m.eachShardOf(policy, func(s *shard) {
		if s.countsRunning() {
			for _, n := range s.plain {
				units += n.a
			}
		}
	})
	return units
}

// addRunning changes the units of a key's running requests.
func (m *Memory) addRunning(c *Check, units int64) {
	s := m.lock(c.Policy, c.Key.text)
	defer s.mu.Unlock()
	s.addRunning(c.Key.text, units)
}

// countsRunning reports whether the shard's table is of a policy that counts running requests.
func (s *shard) countsRunning() bool { return s.table.slowest.Load().CountsRunning() }

// addRunning changes the units of a key's running requests. The bound of keys does not apply to them:
// requests that run hold far more memory.
func (s *shard) addRunning(key string, units int64) {
	n, found := s.plain[key]
	switch n.a += units; {
	case n.a > 0:
		s.plain[key] = n
		if !found {
			s.owner.keys.Add(1)
		}
	case found:
		delete(s.plain, key)
		s.owner.keys.Add(-1)
	}
}
