package limiter

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Banned is a client that a policy refuses now.
type Banned struct {
	// Policy is the policy's name.
	Policy string

	// Key is the client's key; with [KeyFormat].Secret its HMAC.
	Key EncodedKey

	// Left is how long it is still banned.
	Left time.Duration

	// Offenses is how many bans the client has had so far, with this one.
	Offenses int64
}

const (
	// MaxBanned is how many clients a list of the banned holds at most.
	MaxBanned = 10_000

	// banListBudget bounds a search for the banned. A scan of three million keys takes about 2 s.
	banListBudget = 30 * time.Second
)

// Banned lists the clients that the shared store, or without one this process, refuses now: those of
// the policy of that name, of all policies where it is empty. The longest bans come first. The list is
// not complete where there are more than [MaxBanned], or the search took too long. With an error it
// has what was found until then.
func (f *Failover) Banned(ctx context.Context, policy string) (list []Banned, complete bool, err error) {
	if policy != "" && !validName(policy) {
		return nil, true, nil // no policy is called so, and Redis must not match a pattern
	}
	policy = cmp.Or(policy, anyPolicy)
	if f.shared == nil {
		list = f.local.banned(policy)
	} else {
		list, err = f.shared.banned(ctx, policy)
	}
	complete = err == nil && len(list) <= MaxBanned
	slices.SortFunc(list, func(a, b Banned) int {
		return cmp.Or(cmp.Compare(b.Left, a.Left), cmp.Compare(a.Policy, b.Policy), cmp.Compare(a.Key.text, b.Key.text))
	})
	return list[:min(len(list), MaxBanned)], complete, err
}

// banned lists the clients that this process refuses, at most one more than a list holds.
func (m *Memory) banned(policy string) (list []Banned) {
	now := m.clock()
	m.eachShardOf(policy, func(s *shard) {
		for key, b := range s.bans {
			if left := b.until - now; left > 0 && len(list) <= MaxBanned {
				list = append(list, Banned{s.table.slowest.Load().Name(), EncodedKey{key}, duration(left), b.offenses})
			}
		}
	})
	return list
}

// banned lists the clients that are banned on any master, at most one more than a list holds.
func (r *Redis) banned(ctx context.Context, policy string) (list []Banned, err error) {
	var mu sync.Mutex
	err = r.scanKeys(ctx, banListBudget, r.banPattern(policy), func(ctx context.Context, master *redis.Client, names []string) (bool, error) {
		found, err := r.readBanned(ctx, master, names)
		mu.Lock()
		defer mu.Unlock()
		list = append(list, found[:min(len(found), MaxBanned+1-len(list))]...)
		return len(list) <= MaxBanned, err
	})
	return list, err
}

// banPattern matches the keys of the bans of a policy, or of [anyPolicy], and a few others.
func (r *Redis) banPattern(policy string) string {
	return r.pattern(policy + ":" + banCode + "*")
}

// readBanned reads the bans among the names of keys of one master.
func (r *Redis) readBanned(ctx context.Context, master *redis.Client, names []string) (list []Banned, err error) {
	head := r.keyFormat.newWriter().head
	r.learnClock(ctx, master, names[0])
	pipeline := master.Pipeline()
	answers := make([]*redis.StringCmd, len(names))
	for i, name := range names {
		answers[i] = pipeline.Get(ctx, name)
	}
	if _, err := pipeline.Exec(ctx); err != nil && ctx.Err() != nil {
		return nil, ctx.Err()
	}
	for i, answer := range answers {
		policy, key, ok := splitBanKey(names[i], head)
		if isRedirected(answer.Err()) {
			answer = r.client.Get(ctx, names[i])
		}
		state, left, err := r.readBan(answer, names[i])
		if err != nil {
			return list, err
		}
		if ok && left > 0 {
			list = append(list, Banned{policy, EncodedKey{key}, duration(left), state.offenses})
		}
	}
	return list, nil
}

// nowOn returns the time in microseconds by the clock of the Redis that has a key of that name, as far as it
// is known.
func (r *Redis) nowOn(name string) int64 {
	ahead, _ := r.offset(slotOfName(name))
	return time.Now().Add(ahead).UnixMicro() //nolint:forbidigo // compared with Redis's wall clock
}

// learnClock reads the clock of the Redis that has a key of that name, unless a decision has shown it.
// Without an answer it counts as that of this machine.
func (r *Redis) learnClock(ctx context.Context, master *redis.Client, name string) {
	slot := slotOfName(name)
	if _, known := r.offset(slot); known {
		return
	}
	sent := time.Now()
	if redisTime, err := master.Time(ctx).Result(); err == nil {
		r.topology.lastNode(slot).clock.learn(sent, time.Now(), redisTime.UnixMicro()) //nolint:forbidigo // it is Redis's
	}
}

// slotOfName returns the slot of a key of that name: that of the part between its braces.
func slotOfName(name string) uint16 {
	_, tag, _ := strings.Cut(name, "{")
	tag, _, _ = strings.Cut(tag, "}")
	return slotOfTag([]byte(tag))
}
