package failover

import "github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"

// EndRunning ends a request that was let through, once it does not run any more: its checks return the
// units that they have of policies that count running requests. Other checks, and those of a request
// that was denied, it leaves alone. It takes the checks as the decision has left them, or copies of
// them, and must be called at most once. It does not wait.
func (f *Store) EndRunning(checks []limiter.Check) {
	for i := range checks {
		c := &checks[i]
		if c.State.RunningUnits > 0 {
			f.local.AddRunning(c, -int64(c.State.RunningUnits))
		}
	}
	if f.shared != nil {
		f.shared.EndRunning(checks)
	}
	for i := range checks {
		checks[i].State.RunningUnits = 0
	}
}

// Running returns the units of the requests that this process runs under the policy of that name, by
// any store. 0 for a policy that does not count them.
func (f *Store) Running(policy string) int64 { return f.local.Running(policy) }
