package overrides

import (
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

// TestEntry_Policy keeps the variant of a policy, and makes another of another policy of that name.
func TestEntry_Policy(t *testing.T) {
	policy := func(limit int64, window time.Duration) *limiter.Policy {
		p, err := limiter.NewPolicy(limiter.Settings{Name: "api", Limit: limit, Window: window})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	e := &Entry{Rule: Rule{Action: Limit, Limit: 500}}
	base := policy(10, time.Minute)
	if v := e.Policy(base); v.Capacity() != 500 || v.ID() != base.ID() || e.Policy(base) != v {
		t.Errorf("the variant is %v", v)
	}
	e = &Entry{Rule: Rule{Action: Limit, Limit: 1 << 40}}
	if v := e.Policy(base); v != base {
		t.Errorf("an impossible limit makes %v of the policy", v)
	}
}
