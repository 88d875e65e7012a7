package rule

import (
	"sync"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

// TestVariants_with_together has many requests bring the same new limit at once. All get one policy: leases and
// denials are of a policy.
func TestVariants_with_together(t *testing.T) {
	base, err := limiter.NewPolicy(limiter.Settings{Name: "plans", Algorithm: limiter.GCRA, Limit: 1, Window: time.Minute, Dynamic: true})
	redistest.Must(t, err)
	v := NewVariants(base)
	for limit := int64(2); limit < 1000; limit++ {
		var policies [8]*limiter.Policy
		var requests sync.WaitGroup
		for i := range policies {
			requests.Go(func() { policies[i], _ = v.with(limit, 0) })
		}
		requests.Wait()
		for _, p := range policies {
			redistest.FatalIf(t, p == nil || p != policies[0], "two policies of limit %d", limit)
		}
	}
}
