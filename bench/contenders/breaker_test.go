package contenders

import (
	"testing"

	"github.com/sony/gobreaker/v2"
)

// BenchmarkGobreaker measures the cost of the usual breaker for a request. Compare it with
// BenchmarkBreaker of the limiter.
func BenchmarkGobreaker(b *testing.B) {
	breaker := gobreaker.NewTwoStepCircuitBreaker[any](gobreaker.Settings{})
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			done, err := breaker.Allow()
			if err != nil {
				b.Error(err)
				return
			}
			done(nil)
		}
	})
}
