package failover_test

import (
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/failover"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/memory"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/redis"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/redis/dial"
)

// TestStore_bans bans a client in this process, and in a Redis that two stores share.
func TestStore_bans(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	open := func() *redis.Store {
		client, err := dial.New(dial.Options{Addresses: []string{server.Addr}, Timeout: time.Minute})
		assert.Must(t, err)
		shared := redis.New(client, redis.Options{KeyFormat: limiter.KeyFormat{Prefix: "rl"}})
		t.Cleanup(func() { assert.Must(t, shared.Close()) })
		return shared
	}
	policy, err := limiter.NewPolicy(limiter.Settings{Name: "logins", Limit: 1, Window: time.Hour, Ban: []time.Duration{time.Hour}})
	assert.Must(t, err)
	here := failover.New(nil, memory.New(), failover.Options{})
	for _, test := range []struct {
		name           string
		decides, other *failover.Store
	}{
		{"memory", here, here},
		{"redis", failover.New(open(), memory.New(), failover.Options{}), failover.New(open(), memory.New(), failover.Options{})},
	} {
		key := limiter.EncodeKey("alice")
		for range 2 {
			_, err := limiter.Allow(t.Context(), test.decides, policy, "alice")
			assert.Must(t, err)
		}
		banned, complete, err := test.other.Banned(t.Context(), "logins")
		assert.Must(t, err)
		assert.FatalIf(t, !complete || len(banned) != 1 || banned[0].Key != key || banned[0].Offenses != 1, "%s: banned are %v", test.name, banned)
		lifted, err := test.other.Unban(t.Context(), policy, key)
		assert.Must(t, err)
		assert.ErrorIf(t, !lifted, "%s: there was no ban", test.name)
		assert.Must(t, test.other.Reset(t.Context(), policy, key))
		result, err := limiter.Allow(t.Context(), test.decides, policy, "alice")
		assert.Must(t, err)
		assert.ErrorIf(t, !result.Passes(), "%s: after the reset %+v", test.name, result)
		assert.Must(t, test.other.ResetAll(t.Context(), "logins"))
		quota, err := limiter.Peek(t.Context(), test.decides, policy, "alice")
		assert.Must(t, err)
		assert.Equal(t, quota.Remaining, 1, "%s: remaining after all were reset", test.name)
	}
}
