package gate

import (
	"strings"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/answer"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// passed carries a [Decision] in one small allocation, as TestRequest_memory holds, and one more for several policies: that of a
// request that was let through, where no header shows a quota and no log has the decision. It is the function of the placeholders,
// and makes the shared decision when one of these is asked for. What it has never changes. Once a further limiter decides, that
// limiter's decision takes its place.
type passed func(name string) (any, bool)

// decision returns the shared decision of a request that passed, for a further limiter to change.
func (p passed) decision() *sharedDecision {
	made, _ := p(decisionVar)
	d, _ := made.(*sharedDecision)
	return d
}

// String returns the outcome alone, as [sharedDecision.String] does.
func (passed) String() string { return string(limiter.OutcomeAllowed) }

// passedCheck is what is kept of one of several checks that have passed.
type passedCheck struct {
	policy            *limiter.Policy
	key               limiter.EncodedKey
	weight, reserve   int64
	remaining         int64
	resetAfter        time.Duration
	unit              limiter.Unit
	isCharged, scaled bool
}

// newPassed returns the decision of a request with variables, of which checks have passed by a source.
func newPassed(vars map[string]any, checks []limiter.Check, source limiter.Source) passed {
	if c := &checks[0]; len(checks) == 1 {
		policy, key, unit, remaining, resetAfter := c.Policy, c.Key, c.Unit, c.Result.Remaining, c.Result.ResetAfter
		return func(name string) (any, bool) {
			return valueOfPassed(name, vars, source, passedCheck{ // its weight is not kept
				policy: policy, key: key, remaining: remaining, resetAfter: resetAfter, unit: unit, isCharged: true,
			})
		}
	}
	kept := make([]passedCheck, len(checks))
	for i := range checks {
		c := &checks[i]
		kept[i] = passedCheck{c.Policy, c.Key, c.Weight, c.Reserve, c.Result.Remaining, c.Result.ResetAfter, c.Unit, c.Charges, c.State.Scaled}
	}
	return func(name string) (any, bool) { return valueOfPassed(name, vars, source, kept...) }
}

// valueOfPassed returns the value of a placeholder of a request that has passed, or for the name of the variable the shared decision.
func valueOfPassed(name string, vars map[string]any, source limiter.Source, kept ...passedCheck) (any, bool) {
	if name != decisionVar && !strings.HasPrefix(name, placeholderPrefix) {
		return nil, false
	}
	if later, ok := vars[decisionVar].(*sharedDecision); ok {
		return later.placeholder(name)
	}
	d := &sharedDecision{outcome: limiter.OutcomeAllowed, source: source}
	checks := make([]limiter.Check, len(kept))
	for i, c := range kept {
		checks[i] = limiter.Check{
			Policy: c.policy, Key: c.key, Weight: c.weight, Reserve: c.reserve, Charges: c.isCharged, Unit: c.unit,
			Result: limiter.Result{Remaining: c.remaining, ResetAfter: c.resetAfter}, State: limiter.CheckState{Scaled: c.scaled},
		}
	}
	d.quotas.Record(checks, answer.Formats(0), time.Time{})
	if name == decisionVar {
		return d, true
	}
	return d.placeholder(name)
}
