package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// Allow asks a store for one unit of a policy. The key names the client's quota; any bytes.
func Allow(ctx context.Context, store limiter.Store, policy *limiter.Policy, key string) (limiter.Result, error) {
	return ask(ctx, store, limiter.Check{Policy: policy, Key: limiter.EncodeKey(key)})
}

// Peek returns a client's quota of a policy, and takes nothing.
func Peek(ctx context.Context, store limiter.Store, policy *limiter.Policy, key string) (limiter.Result, error) {
	return ask(ctx, store, limiter.Check{Policy: policy, Key: limiter.EncodeKey(key), Peek: true})
}

func ask(ctx context.Context, store limiter.Store, check limiter.Check) (limiter.Result, error) {
	checks := [1]limiter.Check{check}
	_, err := store.Decide(ctx, checks[:])
	return checks[0].Result, err
}

// WantRemaining compares what is left of a key's quota.
func WantRemaining(t testing.TB, s limiter.Store, p *limiter.Policy, key string, want int64) {
	t.Helper()
	left, err := Peek(t.Context(), s, p, key)
	assert.ErrorIf(t, err != nil || left.Remaining != want, "%s, key %s: %+v, %v; want %d left", p.Name(), key, left, err, want)
}

// SetAhead makes known how far Redis's clock is ahead of this machine's, as an answer without a round trip does.
func SetAhead(o *clock.Offset, ahead time.Duration) {
	now := time.Now()
	o.Learn(now, now, now.Add(ahead).UnixMicro())
}
