package failover

import (
	"maps"
	"sync"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// localDenial is what this process may answer without the shared store: a denial, or nothing. With the zero value the store
// is asked. Only [localDenial.deny] makes it a denial, so that code that may only deny cannot let a request through.
type localDenial struct{ denies bool }

// deny gives a check the result of a denial. A result that passes is none.
func (d *localDenial) deny(c *limiter.Check, r limiter.Result) {
	if !r.Passes() {
		c.Result, d.denies = r, true
	}
}

// cache repeats denials, so that a client over its limit is refused without a query, exactly as long as the shared store
// would refuse it. Usage grows only by other requests and otherwise decays, so a weight that is denied at some instant is
// denied until its RetryAfter has passed. A heavier request is denied for longer or for ever, and a request with a smaller
// reserve may pass, so each weight and reserve have an entry of their own. A stale entry (the quota was reset or its limit
// raised on another node, a failover lost counts) can only deny too much, for the maximal age at most.
type cache struct {
	MaxAge time.Duration
	Shards limiter.Shards[shard]
	Sweeps clock.Task

	// Refresh is called with a check whose denial is in use and about to expire from the cache
	// though it holds for longer. Nil: denials are not refreshed.
	Refresh func(check limiter.Check)
}

// newCache returns an empty cache, nil for a maximal age of 0.
func newCache(maxAge time.Duration) *cache {
	if maxAge <= 0 {
		return nil
	}
	c := &cache{MaxAge: maxAge}
	for s := range c.Shards.All() {
		s.Denials = map[key]denial{}
	}
	return c
}

// deny denies the checks if a denial of one of them holds at an instant.
func (c *cache) deny(checks []limiter.Check, now clock.Moment) (denied localDenial) {
	mayCount, banned := false, false
	for i := range checks {
		check := &checks[i]
		if check.Policy.Ban != nil {
			mayCount = c.denyBanned(check, now, &denied) || mayCount
			banned = banned || check.Result.Banned
			continue
		}
		if check.Policy.EndsEarly() {
			continue
		}
		d, found, due := c.Shards.Of(check.Key.String()).get(denyKeyOf(check), now)
		if due && c.Refresh != nil {
			c.Refresh(asked(check))
		}
		if found {
			denied.deny(check, d.result(now))
		}
	}
	if mayCount && !banned {
		return localDenial{}
	}
	return denied
}

// learn keeps the denials among the answers to a query that was sent at some instant, of a request that was denied.
func (c *cache) learn(checks []limiter.Check, sent clock.Moment) {
	for i := range checks {
		check := &checks[i]
		switch {
		case check.Policy.Ban != nil:
			c.learnBan(check, sent)
		case !check.Result.Passes() && !check.Policy.EndsEarly():
			c.put(denyKeyOf(check), c.denial(check, sent), sent)
		}
	}
}

// denial returns the entry for a denied check whose query was sent at some instant.
func (c *cache) denial(check *limiter.Check, sent clock.Moment) denial {
	r := check.Result
	d := denial{
		remaining: r.Remaining, never: r.RetryAfter == limiter.Never, forOthers: r.ForOthers,
		sent: sent, resets: sent.Add(r.ResetAfter),
	}
	d.expires = sent.Add(c.MaxAge)
	if !d.never {
		d.until = sent.Add(r.RetryAfter)
		if d.until < d.expires {
			d.expires = d.until
			return d
		}
	}
	d.RefreshAt = sent.Add(c.MaxAge * 4 / 5)
	return d
}

// put stores a denial; a full shard loses one that has expired, or any.
func (c *cache) put(key key, d denial, now clock.Moment) {
	s := c.Shards.Of(key.Key)
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if _, found := s.Denials[key]; !found && len(s.Denials) >= denyShardSize {
		s.evict(now)
	}
	s.Denials[key] = d
	c.Sweeps.Start(clock.SweepSpan)
}

// relearn takes the answer to a refresh: the denial goes on, or is deleted. One that has left the
// cache meanwhile stays out.
func (c *cache) relearn(check *limiter.Check, sent clock.Moment) {
	s, key := c.Shards.Of(check.Key.String()), denyKeyOf(check)
	if check.Policy.Ban != nil && check.Result.RetryAfter != limiter.Never {
		c.relearnBan(check, sent)
		return
	}
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if _, found := s.Denials[key]; !found {
		return
	}
	if check.Result.Passes() {
		delete(s.Denials, key)
		return
	}
	s.Denials[key] = c.denial(check, sent)
}

// forget drops the denials of a key in the policies of that ID.
func (c *cache) forget(id, key string) {
	c.forgetWhere(key, func(p *limiter.Policy) bool { return p.ID == id })
}

// forgetWhere drops the denials of a key in some policies.
func (c *cache) forgetWhere(key string, drops func(*limiter.Policy) bool) {
	if c == nil {
		return
	}
	s := c.Shards.Of(key)
	s.Mu.Lock()
	defer s.Mu.Unlock()
	for k := range s.Denials {
		if k.Key == key && drops(k.Policy) {
			delete(s.Denials, k)
		}
	}
}

// forgetAll drops the denials of the policies of that name.
func (c *cache) forgetAll(policy string) {
	if c == nil {
		return
	}
	for s := range c.Shards.All() {
		s.Mu.Lock()
		for k := range s.Denials {
			if k.Policy.Name() == policy {
				delete(s.Denials, k)
			}
		}
		s.Mu.Unlock()
	}
}

// prune drops the denials that have expired at an instant.
func (c *cache) prune(now clock.Moment) {
	for s := range c.Shards.All() {
		s.Mu.Lock()
		maps.DeleteFunc(s.Denials, func(_ key, d denial) bool { return now >= d.expires })
		s.Mu.Unlock()
	}
}

// sweepDead drops the denials that have expired, again and again while any are left. There are never many.
func (c *cache) sweepDead() {
	c.prune(clock.Now())
	for s := range c.Shards.All() {
		if s.len() > 0 {
			c.Sweeps.Start(clock.SweepSpan)
			return
		}
	}
}

// startSweeps makes the cache drop dead denials from now on.
func (c *cache) startSweeps() {
	if c != nil {
		c.Sweeps.Run, c.Sweeps.Weak = c.sweepDead, true
	}
}

// denyShardSize is the most entries of a shard.
const denyShardSize = 1024

// shard is the denials of some keys.
type shard struct {
	Mu      sync.Mutex
	Denials map[key]denial
}

// key is a weight of a quota under one policy, and its reserve, less the credit of a look. A policy of another
// configuration is another pointer.
type key struct {
	Policy  *limiter.Policy
	Key     string
	Weight  int64
	Reserve int64
}

func denyKeyOf(c *limiter.Check) key {
	return key{c.Policy, c.Key.String(), limiter.Units(c), c.Reserve - c.Credit}
}

// asked returns what a denied check asked for, to ask it again.
func asked(c *limiter.Check) limiter.Check {
	return limiter.Check{Policy: c.Policy, Key: c.Key, Weight: c.Weight, Reserve: c.Reserve, Look: c.Look, Credit: c.Credit}
}

// kind is what a denial says.
type kind uint8

const (
	kindPlain   kind = iota // the same request is denied
	kindBanned              // the client is banned
	kindCounted             // the next denial counts for a ban, so that the store must decide it
	kindAllowed             // the check passed: another one was denied, and a denial of this one would count for a ban
)

// denial is a remembered refusal of a weight of a quota.
type denial struct {
	kind      kind
	remaining int64
	never     bool
	forOthers bool
	weight    int64 // of a ban's answer, which waits until retryAt if that is later
	reserve   int64 // of the same answer
	retryAt   clock.Moment
	sent      clock.Moment // when it was asked for
	until     clock.Moment // the denial holds before this
	resets    clock.Moment
	expires   clock.Moment // the entry is used before this
	RefreshAt clock.Moment // a refresh is due after this; 0: none is needed, or one is already requested
}

// len counts the denials.
func (s *shard) len() int {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return len(s.Denials)
}

// left returns how long after an instant a later one is. A request that saw the clock before the denial was asked
// for waits no longer than one that saw it then.
func (d *denial) left(until, now clock.Moment) time.Duration { return until.Since(max(now, d.sent)) }

// result returns the answer at an instant before the denial expires.
func (d *denial) result(now clock.Moment) limiter.Result {
	r := limiter.Result{Remaining: d.remaining, RetryAfter: limiter.Never, ResetAfter: max(0, d.left(d.resets, now))}
	if !d.never {
		r.RetryAfter = d.left(d.until, now)
	}
	r.ForOthers = d.forOthers
	if d.kind == kindBanned {
		r.Banned, r.BanLeft = true, r.RetryAfter
	}
	return r
}

// get returns a denial, and reports whether the caller is to refresh it.
func (s *shard) get(key key, now clock.Moment) (d denial, found, due bool) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	d, found = s.Denials[key]
	if !found {
		return d, false, false
	}
	if now >= d.expires {
		delete(s.Denials, key)
		return d, false, false
	}
	if due = d.RefreshAt != 0 && now > d.RefreshAt; due {
		d.RefreshAt = 0
		s.Denials[key] = d
	}
	return d, true, due
}

// evict drops the entries that have expired among a few random ones, or else the last of these.
func (s *shard) evict(now clock.Moment) {
	const sample = 8
	visited, dropped := 0, false
	for key, d := range s.Denials {
		visited++
		if now >= d.expires || (visited >= sample && !dropped) {
			delete(s.Denials, key)
			dropped = true
		}
		if visited >= sample {
			return
		}
	}
}
