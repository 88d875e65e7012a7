package gate

import (
	"strings"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/quotaheader"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
)

// passed is the decision about a request that one policy has let through, where no header shows a quota and no log has the
// decision: it is the function of its placeholders, and makes the decision when one of these is asked for. What it has never
// changes. Once a further limiter decides, that one's decision takes its place.
type passed func(name string) (any, bool)

// decision returns the decision of a request that passed, for a further limiter to change.
func (p passed) decision() *decision {
	made, _ := p(decisionVar)
	d, _ := made.(*decision)
	return d
}

// String returns the outcome alone, as that of a decision does.
func (passed) String() string { return string(rule.Allowed) }

// newPassed returns the decision of a request with variables, of which a check has passed by a source.
func newPassed(vars map[string]any, c *limiter.Check, source limiter.Source) passed {
	policy, key, unit, remaining, resetAfter := c.Policy, c.Key, c.Unit, c.Result.Remaining, c.Result.ResetAfter
	return func(name string) (any, bool) {
		if name != decisionVar && !strings.HasPrefix(name, placeholderPrefix) {
			return nil, false
		}
		if later, ok := vars[decisionVar].(*decision); ok {
			return later.placeholder(name)
		}
		d := &decision{outcome: rule.Allowed, source: source}
		result := limiter.Result{Remaining: remaining, ResetAfter: resetAfter}
		kept := limiter.Check{Policy: policy, Key: key, Unit: unit, Charges: true, Result: result} // its weight is not kept
		d.quotas.Record([]limiter.Check{kept}, quotaheader.Formats(0), time.Time{})
		if name == decisionVar {
			return d, true
		}
		return d.placeholder(name)
	}
}
