package memory

import (
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// Reset drops the state of a key in a policy and returns how many there were. Requests that run still
// do: nothing of them is dropped.
func (m *Store) Reset(p *limiter.Policy, key limiter.EncodedKey) int64 {
	shard := m.Lock(p, key.String())
	defer shard.Mu.Unlock()
	if shard.drop(key.String()) {
		return 1
	}
	return 0
}

// ResetAll drops all states of the policy of that name and returns how many there were, but for running
// requests.
func (m *Store) ResetAll(policy string) (found int64) {
	m.eachShardOf(policy, func(s *Shard) {
		found += s.dropAll()
	})
	return found
}

// Banned lists the clients that this process refuses, at most one more than a list holds.
func (m *Store) Banned(policy string) (list []limiter.Banned) {
	now := m.Clock()
	m.eachShardOf(policy, func(s *Shard) {
		for key, b := range s.Bans {
			if left := b.Until - now; left > 0 && len(list) <= limiter.MaxBanned {
				list = append(list, limiter.Banned{Policy: s.table.slowest.Load().Name(), Key: limiter.AsEncoded(key),
					Left: limiter.Duration(left), Offenses: b.Offenses})
			}
		}
	})
	return list
}

// Unban lifts the ban of a key in a policy and forgets its offenses, and reports whether it was banned.
func (m *Store) Unban(p *limiter.Policy, key limiter.EncodedKey) bool {
	s := m.Lock(p, key.String())
	defer s.Mu.Unlock()
	banned := s.Bans[key.String()].Until > m.Clock()
	s.unban(key.String())
	return banned
}

// UnbanAll lifts the bans of all keys in the policy of that name, and returns how many were banned.
func (m *Store) UnbanAll(policy string) (banned int64) {
	return m.UnbanWhere(policy, func(string) bool { return true })
}

// UnbanWhere lifts the bans of some keys in the policy of that name, and returns how many were banned.
func (m *Store) UnbanWhere(policy string, lifts func(key string) bool) (banned int64) {
	now := m.Clock()
	m.eachShardOf(policy, func(s *Shard) {
		for key, b := range s.Bans {
			if !lifts(key) {
				continue
			}
			if b.Until > now {
				banned++
			}
			s.unban(key)
		}
	})
	return banned
}

// Peek returns what a request of the check's weight would get, without charging it.
func (m *Store) Peek(c *limiter.Check) {
	peek := *c
	m.on(&peek, (*Shard).peek)
	limiter.CopyAnswer(c, &peek)
}

// peek answers a check without charging it: with a denial, or the quota at the moment.
func (s *Shard) peek(c *limiter.Check, now int64) {
	held := s.Get(c.Policy, c.Key.String(), now)
	limiter.Answer(c, limiter.Evaluate(held, now, c), now)
	if !c.Peek && c.Result.Passes() {
		delay := c.Result.Delay
		show(held, now, c)
		c.Result.Delay = delay
	}
	if c.Policy.Ban != nil {
		s.refuseBanned(c, now)
	}
}
