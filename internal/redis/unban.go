package redis

import (
	"cmp"
	"context"
	"sync/atomic"

	goredis "github.com/redis/go-redis/v9"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/dial"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// Unban does what failover.Store.Unban does in the shared store.
func (a *Admin) Unban(ctx context.Context, p *limiter.Policy, key limiter.EncodedKey) (bool, error) {
	if p.Ban == nil {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, a.Timeout)
	defer cancel()
	names := []string{a.BanKey(p, key)}
	if a.MayBeHMAC(key) {
		w := NewKeyWriter(a.KeyFormat)
		w.Mac = nil // the name holds the key itself
		names = append(names, string(w.Append(nil, p.Ban.ID, key.String())))
	}
	banned := false
	for _, name := range names {
		if master, err := a.masterOf(ctx, name); err == nil {
			a.learnClock(ctx, master, name)
		}
		lifted, err := a.unbanOne(ctx, name)
		if err != nil {
			return false, dial.Undecided(err)
		}
		banned = banned || lifted
	}
	return banned, nil
}

// unbanOne deletes the key of a ban, wherever a Cluster has it, and reports whether the client was banned.
func (a *Admin) unbanOne(ctx context.Context, name string) (banned bool, err error) {
	_, left, err := a.readBan(a.client.Get(ctx, name), name)
	if err != nil {
		return false, err
	}
	_, err = a.unlink(ctx, name)
	return left > 0, err
}

// UnbanAll lifts the bans of all keys in the policy of that name, on every master, and returns how many
// were banned.
func (a *Admin) UnbanAll(ctx context.Context, policy string) (int64, error) {
	var banned atomic.Int64
	err := a.scanKeys(ctx, resetBudget, a.banPattern(policy), func(
		ctx context.Context, master *goredis.Client, names []string,
	) (bool, error) {
		n, err := a.unban(ctx, master, names)
		banned.Add(n)
		return true, err
	})
	return banned.Load(), err
}

// unban deletes those of some keys of one master that are of bans, and returns how many clients were banned
// by them.
func (a *Admin) unban(ctx context.Context, master *goredis.Client, names []string) (banned int64, err error) {
	type ban struct {
		name    string
		state   *goredis.StringCmd
		deleted *goredis.IntCmd
	}
	var bans []ban
	head, pipeline := NewKeyWriter(a.KeyFormat).Head, master.Pipeline()
	for _, name := range names {
		if _, _, ok := SplitBanKey(name, head); ok {
			bans = append(bans, ban{name, pipeline.Get(ctx, name), pipeline.Unlink(ctx, name)})
		}
	}
	if len(bans) == 0 {
		return 0, nil
	}
	a.learnClock(ctx, master, bans[0].name)
	_, _ = pipeline.Exec(ctx) // every command has its own error
	for _, b := range bans {
		_, left, err := a.readBan(b.state, b.name)
		lifted := left > 0
		switch failed := cmp.Or(err, b.deleted.Err()); {
		case dial.IsRedirection(failed):
			if lifted, err = a.unbanOne(ctx, b.name); err != nil {
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
