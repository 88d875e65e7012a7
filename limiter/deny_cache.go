package limiter

import (
	"hash/maphash"
	"maps"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
)

// denyCache repeats denials, so that a client over its limit is refused without a query, exactly as
// long as the shared store would refuse it. Usage only grows by other requests and otherwise decays,
// so that a weight denied at some instant is denied until its retry after has passed. A heavier
// request is denied for longer, or for ever, and one of a smaller reserve may pass, so each weight
// and reserve have an entry of their own. A stale entry
// (the quota was reset or its limit raised on another node, a failover lost counts) can only deny
// too much, for the maximal age at most.
type denyCache struct {
	maxAge time.Duration
	seed   maphash.Seed
	shards [denyShards]denyShard

	// refresh is called with a check whose denial is in use and about to expire from the cache
	// though it holds for longer. Nil: denials are not refreshed.
	refresh func(check Check)
}

// MaxDenyAge is the longest that a denial may be repeated. A reset or a failover elsewhere takes
// effect within it.
const MaxDenyAge = time.Second

// newDenyCache returns an empty cache, nil for a maximal age of 0. Ages above [MaxDenyAge] are cut.
func newDenyCache(maxAge time.Duration) *denyCache {
	if maxAge <= 0 {
		return nil
	}
	c := &denyCache{maxAge: min(maxAge, MaxDenyAge), seed: maphash.MakeSeed()}
	for i := range c.shards {
		c.shards[i].denials = map[denyKey]denial{}
	}
	return c
}

func (c *denyCache) shardOf(key string) *denyShard {
	return &c.shards[maphash.String(c.seed, key)%denyShards]
}

// deny denies the checks if a denial of one of them holds at an instant.
func (c *denyCache) deny(checks []Check, now time.Time) (denied refusal) {
	if c == nil {
		return refusal{}
	}
	mayCount, banned := false, false
	for i := range checks {
		check := &checks[i]
		if check.Policy.Rule().Ban != nil {
			mayCount = c.denyBanned(check, now, &denied) || mayCount
			banned = banned || check.Result.Banned
			continue
		}
		if check.Policy.Rule().EndsEarly() {
			continue
		}
		d, found, due := c.shardOf(check.Key.String()).get(denyKeyOf(check), now)
		if due && c.refresh != nil {
			c.refresh(Check{Policy: check.Policy, Key: check.Key, Weight: check.Weight, Reserve: check.Reserve})
		}
		if found {
			denied.deny(check, d.result(now))
		}
	}
	if mayCount && !banned {
		return refusal{}
	}
	return denied
}

// learn keeps the denials among the answers to a query that was sent at some instant.
func (c *denyCache) learn(checks []Check, sent time.Time) {
	if c == nil || Allowed(checks) {
		return
	}
	for i := range checks {
		check := &checks[i]
		switch {
		case check.Policy.Rule().Ban != nil:
			c.learnBan(check, sent)
		case !check.Result.Passes() && !check.Policy.Rule().EndsEarly():
			c.shardOf(check.Key.String()).put(denyKeyOf(check), c.denial(check, sent), sent)
		}
	}
}

// denial returns the entry for a denied check whose query was sent at some instant.
func (c *denyCache) denial(check *Check, sent time.Time) denial {
	r := check.Result
	d := denial{remaining: r.Remaining, never: r.RetryAfter == Never, forOthers: r.ForOthers, resets: sent.Add(r.ResetAfter)}
	d.expires = sent.Add(c.maxAge)
	if !d.never {
		d.until = sent.Add(r.RetryAfter)
		if d.until.Before(d.expires) {
			d.expires = d.until
			return d
		}
	}
	d.refreshAt = sent.Add(c.maxAge * 4 / 5)
	return d
}

// relearn takes the answer to a refresh: the denial goes on, or is deleted. One that has left the
// cache meanwhile stays out.
func (c *denyCache) relearn(check *Check, sent time.Time) {
	s, key := c.shardOf(check.Key.String()), denyKeyOf(check)
	if check.Policy.Rule().Ban != nil && check.Result.RetryAfter != Never {
		c.relearnBan(check, sent)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, found := s.denials[key]; !found {
		return
	}
	if check.Result.Passes() {
		delete(s.denials, key)
		return
	}
	s.denials[key] = c.denial(check, sent)
}

// forget drops the denials of a key in the policies of that ID.
func (c *denyCache) forget(id, key string) {
	c.forgetWhere(key, func(p *Policy) bool { return p.Rule().ID == id })
}

// forgetWhere drops the denials of a key in some policies.
func (c *denyCache) forgetWhere(key string, drops func(*Policy) bool) {
	if c == nil {
		return
	}
	s := c.shardOf(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	for k := range s.denials {
		if k.key == key && drops(k.policy) {
			delete(s.denials, k)
		}
	}
}

// forgetAll drops the denials of the policies of that name.
func (c *denyCache) forgetAll(policy string) {
	if c == nil {
		return
	}
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		for k := range s.denials {
			if k.policy.Name() == policy {
				delete(s.denials, k)
			}
		}
		s.mu.Unlock()
	}
}

func (c *denyCache) prune(now time.Time) {
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		maps.DeleteFunc(s.denials, func(_ denyKey, d denial) bool { return !now.Before(d.expires) })
		s.mu.Unlock()
	}
}

// sweepDead drops the denials that have expired, and reports whether any are left. There are never many.
func (c *denyCache) sweepDead() (left bool) {
	c.prune(time.Now())
	for i := range c.shards {
		left = left || c.shards[i].len() > 0
	}
	return left
}

// startSweeps makes the cache drop dead denials from now on.
func (c *denyCache) startSweeps() {
	if c == nil {
		return
	}
	w := &clock.Sweeper{Sweep: c.sweepDead}
	for i := range c.shards {
		c.shards[i].sweeper = w
	}
}
