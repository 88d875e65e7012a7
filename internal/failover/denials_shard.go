package failover

import (
	"sync"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// DenyShardSize is the most entries of a shard.
const DenyShardSize = 1024

// Shard is the denials of some keys.
type Shard struct {
	Mu      sync.Mutex
	Denials map[Key]denial
}

// Key is a weight of a quota under one policy, and its reserve. A policy of another configuration is another
// pointer.
type Key struct {
	Policy  *limiter.Policy
	Key     string
	Weight  int64
	Reserve int64
}

func denyKeyOf(c *limiter.Check) Key {
	return Key{c.Policy, c.Key.String(), limiter.Units(c), c.Reserve}
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

// Len counts the denials.
func (s *Shard) Len() int {
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
func (s *Shard) get(key Key, now clock.Moment) (d denial, found, due bool) {
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
func (s *Shard) evict(now clock.Moment) {
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
