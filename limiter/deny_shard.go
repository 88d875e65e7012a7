package limiter

import (
	"sync"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
)

// denyShards spreads the locks; each shard holds at most denyShardSize entries.
const (
	denyShards    = 64
	denyShardSize = 1024
)

type denyShard struct {
	mu      sync.Mutex
	denials map[denyKey]denial
	sweeper *clock.Sweeper // of the whole cache; nil: there is none
}

// denyKey is a weight of a quota under one policy, and its reserve. A policy of another configuration is another
// pointer.
type denyKey struct {
	policy  *Policy
	key     string
	weight  int64
	reserve int64
}

func denyKeyOf(c *Check) denyKey { return denyKey{c.Policy, c.Key.String(), unitsOf(c), c.Reserve} }

// denial is the denied answer for a weight of a quota.
type denial struct {
	remaining int64
	never     bool
	banned    bool
	forOthers bool
	weight    int64 // of a ban's answer, which waits until retryAt if that is later
	reserve   int64 // of the same answer
	retryAt   time.Time
	counts    bool      // the next denial counts for a ban, so that the store must decide it
	passes    bool      // none: another check was denied, and a denial of this one would count for a ban
	until     time.Time // the denial holds before this
	resets    time.Time
	expires   time.Time // the entry is used before this
	refreshAt time.Time // a refresh is due after this; zero: none is needed, or one is already requested
}

// len counts the denials.
func (s *denyShard) len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.denials)
}

// result returns the answer at an instant before the denial expires.
func (d *denial) result(now time.Time) Result {
	r := Result{Remaining: d.remaining, RetryAfter: Never, ResetAfter: max(0, d.resets.Sub(now))}
	if !d.never {
		r.RetryAfter = d.until.Sub(now)
	}
	r.ForOthers = d.forOthers
	if d.banned {
		r.Banned, r.BanLeft = true, r.RetryAfter
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
	if s.sweeper != nil {
		s.sweeper.Start()
	}
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
