package failover

import (
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/memory"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest"
)

// BenchmarkLook decides requests whose response does not count, in this process: those that take and are refunded, those that look
// first, and those that only look.
func BenchmarkLook(b *testing.B) {
	for name, check := range map[string]limiter.Check{
		"take": {Weight: 1, Refundable: true}, "look_first": {Weight: 1, Look: true, InFlight: 256}, "look": {Weight: 1, Look: true},
	} {
		b.Run(name, func(b *testing.B) {
			f := New(nil, memory.New(), Behavior{AwaitsRefunds: true})
			check.Policy, check.Key = storetest.RefundingPolicy(b, "bench", limiter.SlidingWindowCounter, 1000), limiter.EncodeKey("192.0.2.1")
			checks := make([]limiter.Check, 1)
			b.ReportAllocs()
			for b.Loop() {
				checks[0] = check
				source, err := f.Decide(b.Context(), checks)
				assert.FatalIf(b, err != nil || !checks[0].Result.Passes(), "%+v, %v", checks[0].Result, err)
				f.Settle(checks[0], 0, source)
			}
		})
	}
}
