//go:build !race

package memory_test

import (
	"context"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/memory"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest"
)

func TestMemory_Decide_allocations(t *testing.T) {
	m := memory.New()
	for _, algorithm := range limiter.Algorithms() {
		p := storetest.DayPolicy(t, "alloc-"+algorithm, algorithm, 100_000)
		checks := []limiter.Check{{Policy: p, Key: limiter.EncodeKey("203.0.113.9"), Weight: 1}}
		allocs := testing.AllocsPerRun(5_000, func() {
			_, _ = m.Decide(context.Background(), checks) // never fails
		})
		if allocs != 0 {
			t.Errorf("%s: %v allocations per decision", algorithm, allocs)
		}
	}
}
