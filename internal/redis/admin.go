package redis

import (
	"context"
	"crypto/sha256"
	"errors"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/kernel"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// Admin reads and deletes what a Redis has stored, for people: it decides nothing.
type Admin struct {
	client    goredis.UniversalClient
	Timeout   time.Duration
	KeyFormat limiter.KeyFormat
	Clock     func(slot uint16) *clock.Offset // of the Redis that decides for a slot
}

// newAdmin returns the administration of the keys that a client's Redis has.
func newAdmin(
	client goredis.UniversalClient, timeout time.Duration, keys limiter.KeyFormat, clockOf func(slot uint16) *clock.Offset,
) Admin {
	return Admin{client, timeout, keys, clockOf}
}

// BanKey returns the key of a client's bans in Redis, in the slot of its states.
func (a *Admin) BanKey(p *limiter.Policy, key limiter.EncodedKey) string {
	return string(NewKeyWriter(a.KeyFormat).Append(nil, p.Ban.ID, key.String()))
}

// RedisKey returns the key of a state in Redis. On a Cluster it decides which master has the state.
func (a *Admin) RedisKey(p *limiter.Policy, key limiter.EncodedKey) string {
	return string(NewKeyWriter(a.KeyFormat).Append(nil, p.ID, key.String()))
}

// pattern matches the names of keys of this store that end so, which may have wildcards.
func (a *Admin) pattern(ends string) string {
	head := strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(NewKeyWriter(a.KeyFormat).Head)
	return head + "*}:" + ends
}

// banPattern matches the keys of the bans of a policy, or of "*", and a few others.
func (a *Admin) banPattern(policy string) string {
	return a.pattern(policy + ":" + kernel.BanCode + "*")
}

// MayBeHMAC reports whether a key may be the HMAC of a client's key in Redis. A long key may
// look the same.
func (a *Admin) MayBeHMAC(key limiter.EncodedKey) bool {
	digits, marked := strings.CutPrefix(key.String(), limiter.HashedMark)
	return marked && a.KeyFormat.Secret != "" && len(digits) == 2*sha256.Size && strings.Trim(digits, "0123456789abcdef") == ""
}

// masterOf returns the client of the master that has a key of that name.
func (a *Admin) masterOf(ctx context.Context, name string) (*goredis.Client, error) {
	switch client := a.client.(type) {
	case *goredis.ClusterClient:
		return client.MasterForKey(ctx, name)
	case *goredis.Client:
		return client, nil
	}
	return nil, errKindOfClient
}

// nowOn returns the time in microseconds by the clock of the Redis that has a key of that name, as far as it
// is known.
func (a *Admin) nowOn(name string) int64 {
	ahead, _ := a.Clock(SlotOfName(name)).Ahead()
	return time.Now().Add(ahead).UnixMicro() //nolint:forbidigo // compared with Redis's wall clock
}

// learnClock reads the clock of the Redis that has a key of that name, unless a decision has shown it.
// Without an answer it counts as that of this machine.
func (a *Admin) learnClock(ctx context.Context, master *goredis.Client, name string) {
	clock := a.Clock(SlotOfName(name))
	if _, known := clock.Ahead(); known {
		return
	}
	sent := time.Now()
	if redisTime, err := master.Time(ctx).Result(); err == nil {
		clock.Learn(sent, time.Now(), redisTime.UnixMicro()) //nolint:forbidigo // it is Redis's
	}
}

var errKindOfClient = errors.New("this kind of Redis client has no masters that are known")
