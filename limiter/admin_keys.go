package limiter

import (
	"context"
	"crypto/sha256"
	"errors"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// AppendClient appends the text that stands for a client's key in the names of Redis keys: the encoded key,
// or its HMAC.
func (r *Redis) AppendClient(dst []byte, key EncodedKey) []byte {
	w := r.writer()
	dst = w.keys.appendClient(dst, key.text)
	r.writers.Put(w)
	return dst
}

// banKey returns the key of a client's bans in Redis, in the slot of its states.
func (r *Redis) banKey(p *Policy, key EncodedKey) string {
	return string(r.keyFormat.newWriter().append(nil, p.ban.id, key.text))
}

// RedisKey returns the key of a state in Redis. On a Cluster it decides which master has the state.
func (r *Redis) RedisKey(p *Policy, key EncodedKey) string {
	return string(r.keyFormat.newWriter().append(nil, p.id, key.text))
}

// pattern matches the names of keys of this store that end so, which may have wildcards.
func (r *Redis) pattern(ends string) string {
	head := strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(r.keyFormat.newWriter().head)
	return head + "*}:" + ends
}

// banPattern matches the keys of the bans of a policy, or of [anyPolicy], and a few others.
func (r *Redis) banPattern(policy string) string {
	return r.pattern(policy + ":" + banCode + "*")
}

// mayBeHMAC reports whether a key may be an HMAC that stands for a client's key in Redis. A long key may
// look the same.
func (r *Redis) mayBeHMAC(key EncodedKey) bool {
	digits, marked := strings.CutPrefix(key.text, hashedMark)
	return marked && r.keyFormat.Secret != "" && len(digits) == 2*sha256.Size && strings.Trim(digits, "0123456789abcdef") == ""
}

// masterOf returns the client of the master that has a key of that name.
func (r *Redis) masterOf(ctx context.Context, name string) (*redis.Client, error) {
	switch client := r.client.(type) {
	case *redis.ClusterClient:
		return client.MasterForKey(ctx, name)
	case *redis.Client:
		return client, nil
	}
	return nil, errKindOfClient
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

var errKindOfClient = errors.New("this kind of Redis client has no masters that are known")
