package redis

import (
	"context"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/dial"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/kernel"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

const (

	// banListBudget bounds a search for the banned. A scan of three million keys takes about 2 s.
	banListBudget = 30 * time.Second
)

// Banned lists the clients that are banned on any master, at most one more than a list holds.
func (a *Admin) Banned(ctx context.Context, policy string) (list []limiter.Banned, err error) {
	var mu sync.Mutex
	err = a.scanKeys(ctx, banListBudget, a.banPattern(policy), func(
		ctx context.Context, master *goredis.Client, names []string,
	) (bool, error) {
		found, err := a.readBanned(ctx, master, names)
		mu.Lock()
		defer mu.Unlock()
		list = append(list, found[:min(len(found), limiter.MaxBanned+1-len(list))]...)
		return len(list) <= limiter.MaxBanned, err
	})
	return list, err
}

// readBanned reads the bans among the names of keys of one master.
func (a *Admin) readBanned(ctx context.Context, master *goredis.Client, names []string) (list []limiter.Banned, err error) {
	head := NewKeyWriter(a.KeyFormat).Head
	a.learnClock(ctx, master, names[0])
	pipeline := master.Pipeline()
	answers := make([]*goredis.StringCmd, len(names))
	for i, name := range names {
		answers[i] = pipeline.Get(ctx, name)
	}
	if _, err := pipeline.Exec(ctx); err != nil && ctx.Err() != nil {
		return nil, ctx.Err()
	}
	for i, answer := range answers {
		policy, key, ok := SplitBanKey(names[i], head)
		if dial.IsRedirection(answer.Err()) {
			answer = a.client.Get(ctx, names[i])
		}
		state, left, err := a.readBan(answer, names[i])
		if err != nil {
			return list, err
		}
		if ok && left > 0 {
			list = append(list, limiter.Banned{Policy: policy, Key: limiter.AsEncoded(key), Left: limiter.Duration(left),
				Offenses: state.Offenses})
		}
	}
	return list, nil
}

// readBan reads a ban and how long it is left from the value of a key of that name; all zero where there is
// none, or a foreign value.
func (a *Admin) readBan(answer *goredis.StringCmd, name string) (state kernel.BanState, left int64, err error) {
	text, err := answer.Result()
	if dial.IsNil(err) || goredis.HasErrorPrefix(err, "WRONGTYPE") {
		return state, 0, nil
	}
	if err != nil {
		return state, 0, err
	}
	state, _ = DecodeBan(text)
	return state, max(0, state.Until-a.nowOn(name)), nil
}
