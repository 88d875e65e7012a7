package limiter_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/storetest"
)

func TestBinding(t *testing.T) {
	t.Parallel()
	p := func(limit int64) *limiter.Policy {
		return storetest.NewPolicy(t, limiter.Settings{Name: fmt.Sprint("p", limit), Algorithm: limiter.GCRA, Limit: limit, Window: time.Minute})
	}
	check := func(limit, remaining int64, retry time.Duration) limiter.Check {
		return limiter.Check{Policy: p(limit), Result: limiter.Result{Remaining: remaining, RetryAfter: retry}}
	}
	for _, test := range []struct {
		name   string
		checks []limiter.Check
		want   int
	}{
		{"nothing", nil, -1},
		{"the smaller part of its capacity", []limiter.Check{check(100, 50, 0), check(10, 4, 0)}, 1},
		{"the first of equals", []limiter.Check{check(100, 50, 0), check(10, 5, 0)}, 0},
		{"a denial before any allowance", []limiter.Check{check(10, 0, 0), check(10, 3, time.Second)}, 1},
		{"the longest wait", []limiter.Check{check(10, 0, time.Second), check(10, 0, time.Minute)}, 1},
		{"never before any wait", []limiter.Check{check(10, 0, time.Minute), check(10, 9, limiter.Never)}, 1},
		{"the first of nevers", []limiter.Check{check(10, 0, limiter.Never), check(10, 9, limiter.Never)}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := limiter.Binding(test.checks)
			redistest.ErrorIf(t, got != test.want, "got %d, want %d", got, test.want)
		})
	}
}
