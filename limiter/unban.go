package limiter

import (
	"cmp"
	"context"
	"crypto/sha256"
	"strings"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// Unban lifts the ban of a key in a policy and forgets its offenses, here and in the shared store, and
// reports whether it was banned. Where [KeyFormat].Secret hides keys, the key may also be one of
// [Failover.Banned], which is an HMAC. Its count stays, so that a client over its limit is denied as any
// other. Other nodes may go on denying for the age of their deny caches. After an error nothing has
// changed, unless the shared store answered too late.
func (f *Failover) Unban(ctx context.Context, p *Policy, key EncodedKey) (bool, error) {
	if f.shared == nil {
		return f.local.Unban(p, key), nil
	}
	banned, err := f.shared.Unban(ctx, p, key)
	if err != nil {
		return false, err
	}
	f.local.Unban(p, key)
	f.denied.forget(p.id, key.text)
	if f.shared.mayBeHMAC(key) {
		f.local.unbanWhere(p.Name(), func(other string) bool {
			return string(f.shared.AppendClient(nil, EncodedKey{other})) == key.text
		})
		f.denied.forgetAll(p.Name())
	}
	return banned, nil
}

// UnbanAll lifts the bans of all keys in the policy of that name, whatever its settings are or were, and
// returns how many were banned. After an error those in a part of the shared store are lifted, and those
// that this process remembers are not.
func (f *Failover) UnbanAll(ctx context.Context, policy string) (int64, error) {
	if !validName(policy) {
		return 0, nil // no policy is called so, and Redis must not match a pattern
	}
	if f.shared == nil {
		return f.local.UnbanAll(policy), nil
	}
	banned, err := f.shared.UnbanAll(ctx, policy)
	if err == nil {
		f.local.UnbanAll(policy)
	}
	f.denied.forgetAll(policy)
	return banned, err
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
	return m.unbanWhere(policy, func(string) bool { return true })
}

// unbanWhere lifts the bans of some keys in the policy of that name, and returns how many were banned.
func (m *Memory) unbanWhere(policy string, lifts func(key string) bool) (banned int64) {
	now := m.clock()
	m.eachShardOf(policy, func(s *shard) {
		for key, b := range s.bans {
			if !lifts(key) {
				continue
			}
			if b.until > now {
				banned++
			}
			s.unban(key)
		}
	})
	return banned
}

// Unban does what [Failover.Unban] does in the shared store.
func (r *Redis) Unban(ctx context.Context, p *Policy, key EncodedKey) (bool, error) {
	if p.ban == nil {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	names := []string{r.banKey(p, key)}
	if r.mayBeHMAC(key) {
		w := r.keyFormat.newWriter()
		w.mac = nil // the key stands in the name as it is
		names = append(names, string(w.append(nil, p.ban.id, key.text)))
	}
	banned := false
	for _, name := range names {
		if master, err := r.masterOf(ctx, name); err == nil {
			r.learnClock(ctx, master, name)
		}
		lifted, err := r.unbanOne(ctx, name)
		if err != nil {
			return false, undecided(err)
		}
		banned = banned || lifted
	}
	return banned, nil
}

// unbanOne deletes the key of a ban, wherever a Cluster has it, and reports whether the client was banned.
func (r *Redis) unbanOne(ctx context.Context, name string) (banned bool, err error) {
	_, left, err := r.readBan(r.client.Get(ctx, name), name)
	if err != nil {
		return false, err
	}
	_, err = r.unlink(ctx, name)
	return left > 0, err
}

// mayBeHMAC reports whether a key may be an HMAC that stands for a client's key in Redis. A long key may
// look the same.
func (r *Redis) mayBeHMAC(key EncodedKey) bool {
	digits, marked := strings.CutPrefix(key.text, hashedMark)
	return marked && r.keyFormat.Secret != "" && len(digits) == 2*sha256.Size && strings.Trim(digits, "0123456789abcdef") == ""
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

// unban deletes those of some keys of one master that are of bans, and returns how many clients were banned
// by them.
func (r *Redis) unban(ctx context.Context, master *redis.Client, names []string) (banned int64, err error) {
	type ban struct {
		name    string
		state   *redis.StringCmd
		deleted *redis.IntCmd
	}
	var bans []ban
	head, pipeline := r.keyFormat.newWriter().head, master.Pipeline()
	for _, name := range names {
		if _, _, ok := splitBanKey(name, head); ok {
			bans = append(bans, ban{name, pipeline.Get(ctx, name), pipeline.Unlink(ctx, name)})
		}
	}
	if len(bans) == 0 {
		return 0, nil
	}
	r.learnClock(ctx, master, bans[0].name)
	_, _ = pipeline.Exec(ctx) // every command has its own error
	for _, b := range bans {
		_, left, err := r.readBan(b.state, b.name)
		lifted := left > 0
		switch failed := cmp.Or(err, b.deleted.Err()); {
		case isRedirected(failed):
			if lifted, err = r.unbanOne(ctx, b.name); err != nil {
				return banned, err
			}
		case failed != nil:
			return banned, failed
		}
		if lifted {
			banned++
		}
	}
	return banned, nil
}
