package limiter

import (
	"hash/maphash"
	"maps"
	"sync"
	"time"
)

// denyCache remembers denials, so that a client known to be over its limit is refused without
// asking, exactly as long as the shared store would refuse it: load only grows by other requests
// and otherwise decays, so that a weight denied at some instant is denied until its retry after has
// passed. A heavier request is denied for longer, or for ever, so each weight has an entry of its
// own. A stale entry (the share was reset or its limit raised on another node, a failover lost
// counts) can only deny too much, for the maximal age at most.
type denyCache struct {
	maxAge time.Duration
	seed   maphash.Seed
	shards [denyShards]denyShard

	// refresh is told of a denial that is asked for again and again, when it is about to be forgotten
	// though it holds for longer: the share and the weight. Nil: nobody is told.
	refresh func(check Check)
}

// denyShards spreads the locks; each shard holds at most denyShardSize entries.
const (
	denyShards    = 64
	denyShardSize = 1024
)

// MaxDenyAge is the longest that a denial may be remembered, so that a reset or a failover
// elsewhere is felt within it.
const MaxDenyAge = time.Second

type denyShard struct {
	mu      sync.Mutex
	denials map[denyKey]denial
}

// denyKey is a weight asked of a share under settings: a policy of another configuration is another
// pointer.
type denyKey struct {
	policy *Policy
	key    string
	weight int64
}

func denyKeyOf(c *Check) denyKey { return denyKey{c.Policy, c.Key, c.Weight} }

// denial is what is known of a share that denied a weight.
type denial struct {
	remaining int64
	never     bool
	until     time.Time // the denial holds before this
	resets    time.Time
	forgotten time.Time // the entry is used before this
	refreshed time.Time // from when on a renewal is due; zero: it is none's business any more
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

// deny answers the checks if one of them is known to be denied at an instant; what remains of the
// others is [Unknown]. It is false where the store must be asked.
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

// learn remembers the denials among the answers to a question that was sent at some instant.
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

// denial is what a denied check says, whose question was sent at some instant.
func (c *denyCache) denial(check *Check, sent time.Time) denial {
	r := check.Result
	d := denial{remaining: r.Remaining, never: r.RetryAfter == Never, resets: sent.Add(r.ResetAfter)}
	d.forgotten = sent.Add(c.maxAge)
	if !d.never {
		d.until = sent.Add(r.RetryAfter)
		if d.until.Before(d.forgotten) {
			d.forgotten = d.until
			return d
		}
	}
	d.refreshed = sent.Add(c.maxAge * 4 / 5)
	return d
}

// relearn takes the answer to a renewal: the denial goes on, or is none any more. One that has been
// forgotten meanwhile stays so.
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

// forget drops what is known of a share in the given policy and all that have its ID.
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

// forgetAll drops what is known of the shares of the policy of that name.
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

// Prune drops the denials that are over, which hold on to their policies.
func (f *Failover) Prune() {
	if f.denied != nil {
		f.denied.prune(time.Now())
	}
}

func (c *denyCache) prune(now time.Time) {
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		maps.DeleteFunc(s.denials, func(_ denyKey, d denial) bool { return !now.Before(d.forgotten) })
		s.mu.Unlock()
	}
}

// result is the answer at an instant before the denial is forgotten.
func (d *denial) result(now time.Time) Result {
	r := Result{Remaining: d.remaining, RetryAfter: Never, ResetAfter: max(0, d.resets.Sub(now))}
	if !d.never {
		r.RetryAfter = d.until.Sub(now)
	}
	return r
}

// get finds a denial, and tells whether it is the caller's turn to see to its renewal.
func (s *denyShard) get(key denyKey, now time.Time) (d denial, found, due bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, found = s.denials[key]
	if !found {
		return d, false, false
	}
	if !now.Before(d.forgotten) {
		delete(s.denials, key)
		return d, false, false
	}
	if due = !d.refreshed.IsZero() && now.After(d.refreshed); due {
		d.refreshed = time.Time{}
		s.denials[key] = d
	}
	return d, true, due
}

// put stores a denial; a full shard loses one that is over, or any.
func (s *denyShard) put(key denyKey, d denial, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, found := s.denials[key]; !found && len(s.denials) >= denyShardSize {
		s.evict(now)
	}
	s.denials[key] = d
}

// evict drops the entries that are over among a few random ones, or the last of these.
func (s *denyShard) evict(now time.Time) {
	const sample = 8
	looked, dropped := 0, false
	for key, d := range s.denials {
		looked++
		if !now.Before(d.forgotten) || (looked >= sample && !dropped) {
			delete(s.denials, key)
			dropped = true
		}
		if looked >= sample {
			return
		}
	}
}
