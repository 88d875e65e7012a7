package contenders

import (
	"testing"

	"github.com/sony/gobreaker/v2"
)

// BenchmarkGobreaker is what the usual breaker costs a request, to be held against
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
