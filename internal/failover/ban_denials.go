package failover

import (
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// This file is the deny cache's part in bans. A policy that bans counts denials, so the store has to decide them. The
// cache repeats only a ban, for any weight, and that a weight is above the capacity. If another check of its request was
// denied, the cache also keeps that a check passed: while nothing is known of a check, the store decides whether the next
// denial counts. A request that weighs less than the one that was answered with the ban may be told the end of the ban,
// though its count makes it wait longer.

// anyWeight is the weight in the [key] of a ban. No check has it.
const anyWeight = -1

func banKeyOf(c *limiter.Check) key {
	return key{Policy: c.Policy, Key: c.Key.String(), Weight: anyWeight}
}

// denyBanned denies a check whose client is banned, or whose weight is above the capacity. Otherwise
// it reports whether the last answer was a denial that counts, or is not known: the store must decide the request
// then, even if another check denies it, unless a client of the request is banned.
func (c *cache) denyBanned(check *limiter.Check, now clock.Moment, denied *localDenial) (mayCount bool) {
	if check.Peek {
		return false
	}
	s := c.Shards.Of(check.Key.String())
	d, found, due := s.get(banKeyOf(check), now)
	if due && c.Refresh != nil {
		c.Refresh(limiter.Check{Policy: check.Policy, Key: check.Key, Weight: 1})
	}
	if found && !limiter.NeverPasses(check) {
		r := d.result(now)
		if limiter.Units(check) >= d.weight && check.Reserve-check.Credit >= d.reserve { // it waits as long or longer
			r.RetryAfter = max(r.RetryAfter, d.left(d.retryAt, now))
		}
		denied.deny(check, r)
		return false
	}
	d, found, due = s.get(denyKeyOf(check), now)
	switch {
	case !found, d.kind == kindCounted:
		return true
	case d.kind == kindAllowed:
		return false
	}
	if due && c.Refresh != nil {
		c.Refresh(asked(check))
	}
	denied.deny(check, d.result(now))
	return false
}

// learnBan keeps what the answer to a check of a policy that bans, in a request that was denied, says about the
// next ones.
func (c *cache) learnBan(check *limiter.Check, sent clock.Moment) {
	if check.Peek {
		return
	}
	if check.Result.Passes() {
		c.put(denyKeyOf(check), denial{kind: kindAllowed, expires: sent.Add(c.MaxAge)}, sent)
		return
	}
	if check.Result.Banned {
		c.put(banKeyOf(check), c.banDenial(check, sent), sent)
		return
	}
	d := c.denial(check, sent)
	if !d.never {
		d.kind, d.RefreshAt = kindCounted, 0
	}
	c.put(denyKeyOf(check), d, sent)
}

// relearnBan takes the answer to a refresh of a ban: it goes on, or was lifted.
func (c *cache) relearnBan(check *limiter.Check, sent clock.Moment) {
	s, key := c.Shards.Of(check.Key.String()), banKeyOf(check)
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if _, found := s.Denials[key]; !found {
		return
	}
	if !check.Result.Banned {
		delete(s.Denials, key)
		return
	}
	s.Denials[key] = c.banDenial(check, sent)
}

// banDenial returns the entry of a ban, for a check whose query was sent at some instant.
func (c *cache) banDenial(check *limiter.Check, sent clock.Moment) denial {
	own := *check
	own.Result.RetryAfter = own.Result.BanLeft
	d := c.denial(&own, sent)
	d.kind, d.weight, d.reserve, d.retryAt = kindBanned, limiter.Units(check), check.Reserve-check.Credit, sent.Add(check.Result.RetryAfter)
	return d
}
