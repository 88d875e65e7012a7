package stores

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redis"
)

// WaitLeft waits until so many units remain of the quota of the key "k" on Redis.
func WaitLeft(t testing.TB, r *redis.Store, p *limiter.Policy, want int64) {
	t.Helper()
	assert.Retry(t, fmt.Sprintf("%d units of %s remain", want, p.Name()), func() (again bool, seen any) {
		check := limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Peek: true}
		err := r.Peek(t.Context(), &check)
		return err != nil || check.Result.Remaining != want, fmt.Sprintf("%+v, %v", check.Result, err)
	})
}

// WaitFailing waits until a store fails, or fails no more. It calls a function before each look.
func WaitFailing(t testing.TB, s interface{ Failing() (bool, time.Duration) }, want bool, before func()) {
	t.Helper()
	assert.Retry(t, fmt.Sprint("it fails: ", want), func() (again bool, seen any) {
		before()
		failing, _ := s.Failing()
		return failing != want, "not yet"
	})
}

// Counted returns how many units Redis counts as running for a key of the policy, as another process sees it.
func Counted(t testing.TB, r *redis.Store, p *limiter.Policy, key string) int64 {
	t.Helper()
	check := limiter.Check{Policy: p, Key: limiter.EncodeKey(key), Peek: true}
	if err := r.Peek(context.Background(), &check); err != nil {
		return -1
	}
	return p.Capacity() - check.Result.Remaining
}

// WaitCounted waits until Redis counts so many units of the key "k" as running.
func WaitCounted(t testing.TB, r *redis.Store, p *limiter.Policy, want int64) {
	t.Helper()
	assert.Retry(t, fmt.Sprintf("Redis counts %d units", want), func() (again bool, seen any) {
		n := Counted(t, r, p, "k")
		return n != want, fmt.Sprintf("it counts %d", n)
	})
}
