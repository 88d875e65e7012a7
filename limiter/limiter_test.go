package limiter_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/memory"
)

// TestAllow_running asks for a request that nothing would end.
func TestAllow_running(t *testing.T) {
	t.Parallel()
	_, err := limiter.Allow(t.Context(), memory.New(), newPolicy(t, limiter.Settings{Name: "slots", MaxConcurrent: 2}), "k")
	assert.FatalIf(t, !errors.Is(err, limiter.ErrInvalidCheck) || !strings.Contains(err.Error(), "EndRunning"), "the error is %v", err)
}
