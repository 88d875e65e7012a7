package redis

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/dial"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// Reset drops the state of a key in a policy, with its ban, and returns 1 if there was one.
func (a *Admin) Reset(ctx context.Context, p *limiter.Policy, key limiter.EncodedKey) (int64, error) {
	found, err := a.unlink(ctx, a.RedisKey(p, key))
	if p.Ban != nil && err == nil {
		banned := int64(0)
		banned, err = a.unlink(ctx, a.BanKey(p, key))
		found += banned
	}
	return min(found, 1), err // one quota
}

// unlink deletes a key. While its slot moves, Redis would refuse to delete two at once.
func (a *Admin) unlink(ctx context.Context, name string) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, a.Timeout)
	defer cancel()
	cmd := dial.NoRetryCmd{Cmd: goredis.NewCmd(ctx, "unlink", name)}
	cmd.SetFirstKeyPos(1)
	err := a.client.Process(ctx, cmd)
	found, _ := cmd.Val().(int64)
	return found, dial.Undecided(err)
}

// resetBudget bounds a reset of a whole policy. A scan of three million keys takes about 2 s.
const resetBudget = 5 * time.Minute

// ResetAll drops all states of the policy of that name, with its bans, on every master, and returns how
// many states and bans there were. Those of probes stay, for some seconds.
func (a *Admin) ResetAll(ctx context.Context, policy string) (int64, error) {
	var found atomic.Int64
	ends, probes := "}:"+policy+":", NewKeyWriter(a.KeyFormat).Head+ProbeKey
	err := a.scanKeys(ctx, resetBudget, a.pattern(policy+":*"), func(
		ctx context.Context, master *goredis.Client, names []string,
	) (bool, error) {
		names = slices.DeleteFunc(names, func(name string) bool {
			at := strings.LastIndex(name, ends)
			return at < 0 || !CodePattern.MatchString(name[at+len(ends):]) || strings.HasPrefix(name, probes) // no state of a client
		})
		n, err := a.unlinkEach(ctx, master, names)
		found.Add(n)
		return true, err
	})
	return found.Load(), err
}

// unlinkEach deletes keys of one master, each by a command of its own: on a Cluster the keys of one
// command must lie in one slot.
func (a *Admin) unlinkEach(ctx context.Context, master *goredis.Client, names []string) (found int64, err error) {
	if len(names) == 0 {
		return 0, nil
	}
	pipeline := master.Pipeline()
	answers := make([]*goredis.IntCmd, len(names))
	for i, name := range names {
		answers[i] = pipeline.Unlink(ctx, name)
	}
	_, _ = pipeline.Exec(ctx) // every command has its own error
	for i, answer := range answers {
		n, failed := answer.Result()
		if dial.IsRedirection(failed) {
			n, failed = a.unlink(ctx, names[i])
		}
		found, err = found+n, cmp.Or(err, failed)
	}
	return found, err
}
