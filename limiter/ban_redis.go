package limiter

import (
	"context"
	"time"
)

// offend counts the denials of a request whose checks lie in several slots of a Cluster and were only
// peeked at, unless one of its clients is banned already. One that is banned by it gets the ban as its
// answer.
func (r *Redis) offend(ctx context.Context, checks []Check, deadline time.Time) error {
	var denied []Check
	var indices []int
	for i := range checks {
		c := &checks[i]
		if c.Result.Banned {
			return nil
		}
		if c.Policy.ban != nil && c.Result.RetryAfter > 0 {
			denied, indices = append(denied, *c), append(indices, i)
		}
	}
	if len(denied) == 0 {
		return nil
	}
	groups := r.groupBySlot(denied)
	err := r.runGroups(ctx, groups, opOffend, deadline)
	for _, g := range groups {
		for i, at := range g.indices {
			if g.decided && !g.checks[i].Result.Passes() {
				checks[indices[at]].Result = g.checks[i].Result
			}
		}
	}
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return nil // a denial stays one, counted or not
}

// banKey returns the key of a client's bans in Redis, in the slot of its states.
func (r *Redis) banKey(p *Policy, key EncodedKey) string {
	return string(r.keyFormat.newWriter().append(nil, p.ban.id, key.text))
}

// Unban lifts the ban of a key in a policy and forgets its offenses, and reports whether there were
// any. Its count stays.
func (r *Redis) Unban(ctx context.Context, p *Policy, key EncodedKey) (bool, error) {
	if p.ban == nil {
		return false, nil
	}
	found, err := r.unlink(ctx, r.banKey(p, key))
	return found > 0, err
}

// Unban lifts the ban of a key in a policy and forgets its offenses, and reports whether there were
// any.
func (m *Memory) Unban(p *Policy, key EncodedKey) bool {
	s := m.lock(p, key.text)
	defer s.mu.Unlock()
	return s.unban(key.text)
}

// Unban lifts the ban of a key in a policy and forgets its offenses, here and in the shared store, and
// reports whether there were any. Its count stays, so that a client over its limit is denied as any
// other. Other nodes may go on denying for the age of their deny caches. After an error the ban was
// lifted in this process alone.
func (f *Failover) Unban(ctx context.Context, p *Policy, key EncodedKey) (bool, error) {
	here := f.local.Unban(p, key)
	if f.shared == nil {
		return here, nil
	}
	defer f.denied.forget(p.id, key.text)
	return f.shared.Unban(ctx, p, key)
}

// Confirm counts units of checks with Reserve that stay, after a decision of that source in which all
// passed: a policy that bans and refunds counts only denials behind such units. Other checks are left
// out. It does not wait, and must be called at most once.
func (f *Failover) Confirm(checks []Check, source Source) {
	for i := range checks {
		c := checks[i]
		if c.Policy.ban == nil || !c.Policy.refunds.Load() || c.Peek {
			continue
		}
		if source == SourceRedis && f.shared.enqueueAsync(opConfirm, &c, nil) {
			continue
		}
		if source != SourceMemory && f.isPartial() {
			f.scaleDown(&c)
		}
		f.local.Confirm([]Check{c})
	}
}

// confirmTaken counts the units of checks that passed and cannot be refunded, of policies that refund
// elsewhere.
func (f *Failover) confirmTaken(checks []Check, source Source) {
	for i := range checks {
		if c := &checks[i]; c.Policy.ban != nil && !c.Reserve && c.Policy.refunds.Load() && Allowed(checks) {
			f.Confirm(checks[i:i+1], source)
		}
	}
}
