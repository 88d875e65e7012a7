package failover

import "github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"

// Refusal is what this process may answer without the shared store: a denial, or nothing. The zero value has
// the store asked. [Refusal.Deny] alone makes it a denial, so that no path that may only deny lets a request
// through.
type Refusal struct{ denies bool }

// Denies reports whether it is a denial.
func (d Refusal) Denies() bool { return d.denies }

// Deny gives a check the result of a denial. A result that passes is none.
func (d *Refusal) Deny(c *limiter.Check, r limiter.Result) {
	if !r.Passes() {
		c.Result, d.denies = r, true
	}
}

// ForgetResults makes the Remaining of all checks [limiter.Unknown], which it stays for those that nothing denies.
func ForgetResults(checks []limiter.Check) {
	for i := range checks {
		checks[i].Result = limiter.Result{Remaining: limiter.Unknown}
	}
}
