package failover

import (
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/kernel"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/memory"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

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

// letRun counts a request that is let through without a decision. Where Redis decides, no request of more
// than the limit passes: here it counts for the limit, so that no weight fills the numbers of all nodes.
func (f *Store) letRun(checks []limiter.Check) {
	for i := range checks {
		if c := &checks[i]; c.Policy.CountsRunning && !c.Peek {
			c.State.RunningUnits = int32(min(limiter.Units(c), c.Policy.Capacity()))
		}
	}
	f.local.StartRunning(checks)
	f.shared.LetRun(checks)
}

// Running returns the units of the requests that this process runs under the policy of that name, by
// any store. 0 for a policy that does not count them.
func (f *Store) Running(policy string) int64 { return f.local.Running(policy) }

// denyFull denies the checks if this process alone runs as much as one of them allows. What began before a reload
// to another Redis is of it, and unknown there. It leaves requests with policies that count denials to the store.
func denyFull(local *memory.Store, checks []limiter.Check) (full Refusal) {
	for i := range checks {
		c := &checks[i]
		if c.Policy.Ban != nil {
			return Refusal{}
		}
		if local.RunsAll(c) {
			full.Deny(c, limiter.Result{RetryAfter: limiter.Duration(kernel.RunningHint), ResetAfter: limiter.Duration(kernel.RunningHint)})
		}
	}
	return full
}
