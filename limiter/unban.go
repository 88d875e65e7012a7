package limiter

import (
	"context"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// Unban lifts the ban of a key in a policy and forgets its offenses, here and in the shared store, and
// reports whether it was banned. Its count stays, so that a client over its limit is denied as any
// other. Other nodes may go on denying for the age of their deny caches. After an error the ban was
// lifted in this process alone.
func (f *Failover) Unban(ctx context.Context, p *Policy, key EncodedKey) (bool, error) {
	here := f.local.Unban(p, key)
	if f.shared == nil {
		return here, nil
	}
	defer f.denied.forget(p.id, key.text)
	return f.shared.Unban(ctx, p, key)
}

// UnbanAll lifts the bans of all keys in the policy of that name, whatever its settings are or were, and
// returns how many were banned. After an error the shared store may still have some.
func (f *Failover) UnbanAll(ctx context.Context, policy string) (int64, error) {
	if !validName(policy) {
		return 0, nil // no policy is called so, and Redis must not match a pattern
	}
	here := f.local.UnbanAll(policy)
	if f.shared == nil {
		return here, nil
	}
	defer f.denied.forgetAll(policy)
	return f.shared.UnbanAll(ctx, policy)
}

// Unban lifts the ban of a key in a policy and forgets its offenses, and reports whether it was banned.
func (m *Memory) Unban(p *Policy, key EncodedKey) bool {
	s := m.lock(p, key.text)
	defer s.mu.Unlock()
	banned := s.bans[key.text].until > m.clock()
	s.unban(key.text)
	return banned
}

// UnbanAll lifts the bans of all keys in the policy of that name, and returns how many were banned.
func (m *Memory) UnbanAll(policy string) (banned int64) {
	now := m.clock()
	m.eachShardOf(policy, func(s *shard) {
		for key, b := range s.bans {
			if b.until > now {
				banned++
			}
			s.unban(key)
		}
	})
	return banned
}

// Unban lifts the ban of a key in a policy and forgets its offenses, and reports whether it was banned.
func (r *Redis) Unban(ctx context.Context, p *Policy, key EncodedKey) (bool, error) {
	if p.ban == nil {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	banned, err := r.unban(ctx, r.client, []string{r.banKey(p, key)})
	return banned > 0, undecided(err)
}

// UnbanAll lifts the bans of all keys in the policy of that name, on every master, and returns how many
// were banned.
func (r *Redis) UnbanAll(ctx context.Context, policy string) (int64, error) {
	var banned atomic.Int64
	err := r.scanKeys(ctx, resetBudget, r.banPattern(policy), func(ctx context.Context, master *redis.Client, names []string) (bool, error) {
		n, err := r.unban(ctx, master, names)
		banned.Add(n)
		return true, err
	})
	return banned.Load(), err
}

// unban deletes those of some keys that are of bans, and returns how many clients were banned by them.
func (r *Redis) unban(ctx context.Context, client redis.Cmdable, names []string) (banned int64, err error) {
	type ban struct {
		key     string
		state   *redis.StringCmd
		deleted *redis.IntCmd
	}
	var bans []ban
	head, pipeline := r.keyFormat.newWriter().head, client.Pipeline()
	for _, name := range names {
		if _, key, ok := splitBanKey(name, head); ok {
			bans = append(bans, ban{key, pipeline.Get(ctx, name), pipeline.Unlink(ctx, name)})
		}
	}
	if len(bans) == 0 {
		return 0, nil
	}
	_, _ = pipeline.Exec(ctx) // every command has its own error
	for _, b := range bans {
		if err := b.deleted.Err(); err != nil {
			return banned, err
		}
		_, left, err := r.readBan(b.state, b.key)
		if err != nil {
			return banned, err
		}
		if left > 0 {
			banned++
		}
	}
	return banned, nil
}
