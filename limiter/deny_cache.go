package limiter

import (
	"hash/maphash"
	"maps"
	"sync"
	"time"
)

// denyCache repeats denials, so that a client over its limit is refused without a query, exactly as
// long as the shared store would refuse it. Usage only grows by other requests and otherwise decays,
// so that a weight denied at some instant is denied until its retry after has passed. A heavier
// request is denied for longer, or for ever, so each weight has an entry of its own. A stale entry
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

// denyShards spreads the locks; each shard holds at most denyShardSize entries.
const (
	denyShards    = 64
	denyShardSize = 1024
)

// MaxDenyAge is the longest that a denial may be repeated. A reset or a failover elsewhere takes
// effect within it.
const MaxDenyAge = time.Second

type denyShard struct {
	mu      sync.Mutex
	denials map[denyKey]denial
}

// denyKey is a weight of a quota under one policy. A policy of another configuration is another
// pointer.
type denyKey struct {
	policy *Policy
	key    string
	weight int64
}

func denyKeyOf(c *Check) denyKey { return denyKey{c.Policy, c.Key, c.Weight} }

// denial is the denied answer for a weight of a quota.
type denial struct {
	remaining int64
	never     bool
	until     time.Time // the denial holds before this
	resets    time.Time
	expires   time.Time // the entry is used before this
	refreshAt time.Time // a refresh is due after this; zero: none is needed, or one is already requested
}

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

// deny answers the checks if a denial of one of them holds at an instant; the Remaining of the
// others is [Unknown]. It returns false where the store must decide.
func (c *denyCache) deny(checks []Check, now time.Time) bool {
	if c == nil {
		return false
	}
	denied := false
	for i := range checks {
		check := &checks[i]
		if check.Policy.refunds.Load() {
			check.Result = Result{Remaining: Unknown}
			continue
		}
		d, found, due := c.shardOf(check.Key).get(denyKeyOf(check), now)
		if due && c.refresh != nil {
			c.refresh(Check{Policy: check.Policy, Key: check.Key, Weight: check.Weight})
		}
		if !found {
			check.Result = Result{Remaining: Unknown}
			continue
		}
		denied = true
		check.Result = d.result(now)
	}
	return denied
}

// learn keeps the denials among the answers to a query that was sent at some instant.
func (c *denyCache) learn(checks []Check, sent time.Time) {
	if c == nil {
		return
	}
	for i := range checks {
		if check := &checks[i]; !check.Result.Passes() && !check.Policy.refunds.Load() {
			c.shardOf(check.Key).put(denyKeyOf(check), c.denial(check, sent), sent)
		}
	}
}

// denial returns the entry for a denied check whose query was sent at some instant.
func (c *denyCache) denial(check *Check, sent time.Time) denial {
	r := check.Result
	d := denial{remaining: r.Remaining, never: r.RetryAfter == Never, resets: sent.Add(r.ResetAfter)}
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
	s, key := c.shardOf(check.Key), denyKeyOf(check)
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
	if c == nil {
		return
	}
	s := c.shardOf(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	for k := range s.denials {
		if k.key == key && k.policy.id == id {
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

// Prune drops the denials that have expired, which keep their policies in memory.
func (f *Failover) Prune() {
	if f.denied != nil {
		f.denied.prune(time.Now())
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

// result returns the answer at an instant before the denial expires.
func (d *denial) result(now time.Time) Result {
	r := Result{Remaining: d.remaining, RetryAfter: Never, ResetAfter: max(0, d.resets.Sub(now))}
	if !d.never {
		r.RetryAfter = d.until.Sub(now)
	}
	return r
}

// get returns a denial, and reports whether the caller is to refresh it.
func (s *denyShard) get(key denyKey, now time.Time) (d denial, found, due bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, found = s.denials[key]
	if !found {
		return d, false, false
	}
	if !now.Before(d.expires) {
		delete(s.denials, key)
		return d, false, false
	}
	if due = !d.refreshAt.IsZero() && now.After(d.refreshAt); due {
		d.refreshAt = time.Time{}
		s.denials[key] = d
	}
	return d, true, due
}

// put stores a denial; a full shard loses one that has expired, or any.
func (s *denyShard) put(key denyKey, d denial, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, found := s.denials[key]; !found && len(s.denials) >= denyShardSize {
		s.evict(now)
	}
	s.denials[key] = d
}

// evict drops the entries that have expired among a few random ones, or else the last of these.
func (s *denyShard) evict(now time.Time) {
	const sample = 8
	visited, dropped := 0, false
	for key, d := range s.denials {
		visited++
		if !now.Before(d.expires) || (visited >= sample && !dropped) {
			delete(s.denials, key)
			dropped = true
		}
		if visited >= sample {
			return
		}
	}
}
