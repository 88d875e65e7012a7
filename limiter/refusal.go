package limiter

// refusal is what this process may answer without the shared store: a denial, or nothing. The zero value has
// the store asked. [refusal.deny] alone makes it a denial, so that no path that may only deny lets a request
// through.
type refusal struct{ denies bool }

// deny gives a check the result of a denial. A result that passes is none.
func (d *refusal) deny(c *Check, r Result) {
	if !r.Passes() {
		c.Result, d.denies = r, true
	}
}

// forgetResults makes the Remaining of all checks [Unknown], which it stays for those that nothing denies.
func forgetResults(checks []Check) {
	for i := range checks {
		checks[i].Result = Result{Remaining: Unknown}
	}
}
