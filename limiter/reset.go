package limiter

import (
	"cmp"
	"context"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// ResetCount counts the states that a reset has found.
type ResetCount struct {
	// Shared is those in the shared store; with an error, in the part of it that answered. Without a
	// shared store it is 0.
	Shared int64

	// Here is those in this process. With a shared store that is only what was kept for outages.
	Here int64
}

// Reset drops the state of a key in a policy, here and in the shared store. Other nodes may go on
// denying for the age of their deny caches. After an error it was dropped in this process alone.
func (f *Failover) Reset(ctx context.Context, p *Policy, key EncodedKey) (found ResetCount, err error) {
	found.Here = f.local.Reset(p, key)
	if f.shared == nil {
		return found, nil
	}
	defer f.local.Reset(p, key) // what was remembered meanwhile
	f.ledger.forget(p, key.text)
	f.leases.end(key.text, ofState(p.id), keyReset)
	defer f.leases.end(key.text, ofState(p.id), keyReset) // what was leased meanwhile
	defer f.denied.forget(p.id, key.text)
	found.Shared, err = f.shared.Reset(ctx, p, key)
	return found, err
}

// ResetAll drops all states of the policy of that name, whatever its settings are or were. After an
// error the shared store may still have some.
func (f *Failover) ResetAll(ctx context.Context, policy string) (found ResetCount, err error) {
	if !validName(policy) {
		return found, nil // no policy is called so
	}
	found.Here = f.local.ResetAll(policy)
	if f.shared == nil {
		return found, nil
	}
	defer f.local.ResetAll(policy) // what was remembered meanwhile
	f.ledger.forgetAll(policy)
	f.leases.endAll(named(policy), keyReset)
	defer f.leases.endAll(named(policy), keyReset) // what was leased meanwhile
	defer f.denied.forgetAll(policy)
	found.Shared, err = f.shared.ResetAll(ctx, policy)
	return found, err
}

// Reset drops the state of a key in a policy and returns how many there were. Requests that run still
// do: nothing of them is dropped.
func (m *Memory) Reset(p *Policy, key EncodedKey) int64 {
	if p.CountsRunning() {
		return 0
	}
	shard := m.lock(p, key.text)
	defer shard.mu.Unlock()
	if shard.drop(key.text) {
		return 1
	}
	return 0
}

// ResetAll drops all states of the policy of that name and returns how many there were, but for running
// requests.
func (m *Memory) ResetAll(policy string) (found int64) {
	m.eachShardOf(policy, func(s *shard) {
		if !s.countsRunning() {
			found += s.dropAll()
		}
	})
	return found
}

// Reset drops the state of a key in a policy, with its ban, and returns 1 if there was one.
func (r *Redis) Reset(ctx context.Context, p *Policy, key EncodedKey) (int64, error) {
	found, err := r.unlink(ctx, r.RedisKey(p, key))
	if p.ban != nil && err == nil {
		banned := int64(0)
		banned, err = r.unlink(ctx, r.banKey(p, key))
		found += banned
	}
	return min(found, 1), err // one quota
}

// unlink deletes a key. While its slot moves, Redis would refuse to delete two at once.
func (r *Redis) unlink(ctx context.Context, name string) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	cmd := noRetryCmd{redis.NewCmd(ctx, "unlink", name)}
	cmd.SetFirstKeyPos(1)
	err := r.client.Process(ctx, cmd)
	found, _ := cmd.Val().(int64)
	return found, undecided(err)
}

// RedisKey returns the key of a state in Redis. On a Cluster it decides which master has the state.
func (r *Redis) RedisKey(p *Policy, key EncodedKey) string {
	return string(r.keyFormat.newWriter().append(nil, p.id, key.text))
}

// resetBudget bounds a reset of a whole policy. A scan of three million keys takes about 2 s.
const resetBudget = 5 * time.Minute

// codePattern matches the last part of a key of this module.
var codePattern = regexp.MustCompile(`^[a-z][0-9]+(d|h|m|s|ms|us)(-ms)?$`)

// ResetAll drops all states of the policy of that name, with its bans, on every master, and returns how
// many states and bans there were.
func (r *Redis) ResetAll(ctx context.Context, policy string) (int64, error) {
	var found atomic.Int64
	ends := "}:" + policy + ":"
	err := r.scanKeys(ctx, resetBudget, r.pattern(policy+":*"), func(ctx context.Context, master *redis.Client, names []string) (bool, error) {
		names = slices.DeleteFunc(names, func(name string) bool {
			at := strings.LastIndex(name, ends)
			return at < 0 || !codePattern.MatchString(name[at+len(ends):]) // a foreign key
		})
		n, err := r.unlinkEach(ctx, master, names)
		found.Add(n)
		return true, err
	})
	return found.Load(), err
}

// unlinkEach deletes keys of one master, each by a command of its own: on a Cluster the keys of one
// command must lie in one slot.
func (r *Redis) unlinkEach(ctx context.Context, master *redis.Client, names []string) (found int64, err error) {
	if len(names) == 0 {
		return 0, nil
	}
	pipeline := master.Pipeline()
	answers := make([]*redis.IntCmd, len(names))
	for i, name := range names {
		answers[i] = pipeline.Unlink(ctx, name)
	}
	_, _ = pipeline.Exec(ctx) // every command has its own error
	for i, answer := range answers {
		n, failed := answer.Result()
		if isRedirected(failed) {
			n, failed = r.unlink(ctx, names[i])
		}
		found, err = found+n, cmp.Or(err, failed)
	}
	return found, err
}
