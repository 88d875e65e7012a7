// Package returnable counts the units that requests under way may still return, and shortens the waits that are
// theirs alone: seven right log-ins at once at a limit of five deny two, which would pass a moment later.
// It imports limiter alone.
package returnable

import (
	"hash/maphash"
	"sync"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

// Wait is the RetryAfter of a denial that units under way may end. Nothing says when they return.
const Wait = time.Second

// Units are the units that requests of this process have reserved, or are about to, and may still return. They are
// safe for concurrent use. [New] makes them.
type Units struct {
	seed   maphash.Seed
	shards [64]shard
}

type shard struct {
	mu    sync.Mutex
	units map[quota]int64 // none of 0
}

type quota struct {
	policy string // its ID
	key    limiter.EncodedKey
}

// New returns no units.
func New() *Units {
	u := &Units{seed: maphash.MakeSeed()}
	for i := range u.shards {
		u.shards[i].units = map[quota]int64{}
	}
	return u
}

// Begun is what others had reserved of the quotas of a request's first checks when it began to be decided.
type Begun [4]int64

// Begin counts what checks reserve that are about to be decided together. Counted only with the answer, a denial
// could come before the answers that it follows from. Every Begin is followed by a Decided.
func (u *Units) Begin(checks []limiter.Check) (b Begun) {
	for i := range checks {
		if c := &checks[i]; reserves(c) {
			if others := u.add(c, unitsOf(c)) - unitsOf(c); i < len(b) {
				b[i] = others
			}
		}
	}
	return b
}

// Decided keeps the units of checks that passed together, until [Units.End] of each. Those of others are gone. A
// denial that would pass with what others may still return, or may have returned meanwhile, waits for at most
// [Wait].
func (u *Units) Decided(checks []limiter.Check, b Begun, err error) {
	if err == nil && limiter.Allowed(checks) {
		return
	}
	for i := range checks {
		c, others := &checks[i], int64(0)
		if reserves(c) {
			others = u.add(c, -unitsOf(c))
		} else {
			others = u.of(c)
		}
		if i < len(b) {
			others = max(others, b[i])
		}
		if r := &c.Result; err == nil && r.RetryAfter > Wait && !r.Banned && others > 0 && wouldPass(c, others) {
			r.RetryAfter = Wait
		}
	}
}

// End ends the reservation of a check that passed: its units stay, or are returned. Other checks have none.
func (u *Units) End(c *limiter.Check) {
	if reserves(c) {
		u.add(c, -unitsOf(c))
	}
}

// wouldPass reports whether a denied check would pass if so many units were returned. A quota in debt shows 0 as
// what remains: its requests learn of a longer wait when nothing is under way any more.
func wouldPass(c *limiter.Check, returned int64) bool {
	return max(0, c.Unused())+returned >= unitsOf(c)+c.Leave
}

func reserves(c *limiter.Check) bool { return c.Reserve && !c.Peek }

// unitsOf returns what the check takes.
func unitsOf(c *limiter.Check) int64 { return max(1, c.Weight) }

func (u *Units) of(c *limiter.Check) int64 {
	s := u.shardOf(c)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.units[quotaOf(c)]
}

// add changes the units of a check's quota, and returns them.
func (u *Units) add(c *limiter.Check, units int64) (left int64) {
	s, q := u.shardOf(c), quotaOf(c)
	s.mu.Lock()
	defer s.mu.Unlock()
	left = s.units[q] + units
	if left == 0 {
		delete(s.units, q)
	} else {
		s.units[q] = left
	}
	return left
}

func (u *Units) shardOf(c *limiter.Check) *shard {
	return &u.shards[maphash.String(u.seed, c.Key.String())%uint64(len(u.shards))]
}

func quotaOf(c *limiter.Check) quota { return quota{c.Policy.ID(), c.Key} }
