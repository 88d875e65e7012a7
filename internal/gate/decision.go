package gate

import (
	"errors"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
)

// Decision is what a handler decides about a request by checks that a store decides together, or what one of its dry runs
// would. [Limiter.Begin] and [DryRuns] begin a decision, and [Decision.Conclude] ends it. Whatever says what happened to the
// request reads this record: refusals, logs, metrics, listeners, explain and replay; and header fields and placeholders, by what
// [sharedDecision.note] and [newPassed] keep of the record for as long as the request lasts.
type Decision struct {
	Checks []limiter.Check
	DryRun bool // the decision has no effect on the request
	Mode   limiter.FailMode

	Outcome limiter.Outcome // empty: nothing has decided so far
	Reason  limiter.Reason  // of a denial
	Source  limiter.Source  // that has decided; empty: nothing has so far, or there was nothing to decide
	Err     error           // why no store has decided

	Delay time.Duration // for how long queues hold the request
	at    time.Time     // when it was noted
	pass  rule.Pass
}

// Conclude ends a decision by what has decided, or by the error of a store that has not: then by the fail mode. This is the one
// place where a request gets its outcome, and its denial a reason.
func (d *Decision) Conclude(source limiter.Source, err error) {
	d.Source, d.Err = source, err
	switch {
	case err == nil && limiter.Allowed(d.Checks):
		d.Outcome = limiter.OutcomeAllowed
	case err == nil:
		d.Outcome, d.Reason = limiter.OutcomeDenied, limiter.ReasonOf(d.Checks, source)
	case !errors.Is(err, limiter.ErrUndecided):
		d.Outcome = limiter.OutcomeAbandoned
	case d.Mode == limiter.FailOpen:
		d.Outcome, d.Source = limiter.OutcomeFailedOpen, limiter.SourceRedis
	default:
		d.Outcome, d.Source = limiter.OutcomeFailedClosed, limiter.SourceRedis
	}
}

// Binding returns the check of a denial that says when the request may come again, see [limiter.Binding].
func (d *Decision) Binding() *limiter.Check { return &d.Checks[limiter.Binding(d.Checks)] }

// Begin begins an empty decision about the checks that are enforced. One that is blocked is concluded at once: no store is
// asked.
func (l *Limiter) Begin(d *Decision, e *rule.Evaluation) {
	d.Checks, d.Mode, d.pass = e.Enforced, l.FailMode, e.Pass
	if e.Blocked {
		d.Conclude(e.BlockedBy, nil)
	}
}

// DryRuns begins the decisions of dry runs. Each check is decided by itself, so that no dry run affects another, and
// no dry run fails. The decision of a blocked check is concluded at once.
func DryRuns(e *rule.Evaluation) []Decision {
	if len(e.DryRun)+len(e.DryBlocks) == 0 {
		return nil
	}
	dry := make([]Decision, len(e.DryRun)+len(e.DryBlocks))
	for i := range dry {
		dry[i].DryRun, dry[i].Mode = true, limiter.FailLocal
		if i < len(e.DryBlocks) {
			dry[i].Checks = e.DryBlocks[i : i+1 : i+1]
			dry[i].Conclude(rule.BlockSource(&e.DryBlocks[i]), nil)
		} else {
			at := i - len(e.DryBlocks)
			dry[i].Checks = e.DryRun[at : at+1 : at+1]
		}
	}
	return dry
}

// Blocked reports whether a check is refused before a store is asked, and by what.
func Blocked(c *limiter.Check) (by limiter.Source, blocked bool) {
	if c.Result.Passes() {
		return "", false
	}
	return rule.BlockSource(c), true
}

// LongestDelay returns for how long the queues of checks hold their request.
func LongestDelay(checks []limiter.Check) (longest time.Duration) {
	for i := range checks {
		longest = max(longest, checks[i].Result.Delay)
	}
	return longest
}

// PendingCheck is a check that passed and whose cost the response decides.
type PendingCheck struct {
	Check  limiter.Check
	Rule   *rule.Rule
	Source limiter.Source // that decided
	DryRun bool

	counted bool // a response that counts has begun, whose cost is not known so far
}

// Pending returns a check that was decided, and whether the response decides what the check costs.
func (l *Limiter) Pending(d *Decision, i int) (p PendingCheck, waits bool) {
	c := &d.Checks[i]
	r := l.Rules.RuleOf(c)
	if !c.Result.Passes() || !r.AwaitsResponse() || rule.OnlyLooks(c) {
		return p, false
	}
	return PendingCheck{Check: *c, Rule: r, Source: d.Source, DryRun: d.DryRun}, true
}
