package failover

import "github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"

// refusal is what this process may answer without the shared store: a denial, or nothing. With the zero value the store
// is asked. Only [refusal.deny] makes it a denial, so that code that may only deny cannot let a request through.
type refusal struct{ denies bool }

// deny gives a check the result of a denial. A result that passes is none.
func (d *refusal) deny(c *limiter.Check, r limiter.Result) {
	if !r.Passes() {
		c.Result, d.denies = r, true
	}
}
