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
		if c.Policy.ban != nil && c.Result.RetryAfter > 0 && !c.Result.ForOthers {
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
				checks[indices[at]].answeredBy(&g.checks[i])
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

// confirmTaken counts the units of checks that passed and cannot be refunded, of policies that refund
// elsewhere: these count only denials behind units that stay.
func (f *Failover) confirmTaken(checks []Check, source Source) {
	for i := range checks {
		if c := &checks[i]; c.Policy.ban != nil && !c.Refundable && !c.Peek && c.Policy.refunds.Load() && Allowed(checks) {
			kept := *c
			kept.change, kept.stays = 0, c.units()
			f.settle(&kept, source)
		}
	}
}

// writeBanKeys writes the keys of bans behind those of the states, the last check first: the script
// finds the first one at the end, so that no message says how many there are.
func (m *message) writeBanKeys(keys *keyWriter) {
	for i := len(m.order) - 1; i >= 0; i-- {
		checks := m.order[i].checks
		for j := len(checks) - 1; j >= 0; j-- {
			if b := checks[j].Policy.ban; b != nil {
				m.writeKey(keys, b.id, checks[j].Key)
			}
		}
	}
}

// writeBans writes the bans of each policy.
func (m *message) writeBans() {
	for _, p := range m.policies {
		if p.ban == nil {
			m.writeNumber(0)
			continue
		}
		m.writeNumber(int64(len(p.ban.durations)))
		m.writeNumber(p.ban.after)
		confirms := int64(0)
		if p.refunds.Load() {
			confirms = 1
		}
		m.writeNumber(confirms)
		for _, d := range p.ban.durations {
			m.writeNumber(d)
		}
	}
}

// readBan reads a ban from what stands in place of a delay: twice what is left of it in microseconds,
// and one more where the request began it.
func (r *Result) readBan(number int64) {
	r.Banned, r.BanBegins, r.BanLeft = true, number%2 == 1, duration(number/2)
}
