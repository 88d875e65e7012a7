package gate

import (
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
)

// CheckGroup is checks that a store decides together.
type CheckGroup struct {
	Checks []limiter.Check
	DryRun bool

	// Mode decides if Redis does not.
	Mode limiter.FailMode

	// Source is what has decided; empty: nothing has so far. What is blocked is refused before a store is asked.
	Source limiter.Source
}

// Verdict is what was decided about the checks that are enforced.
type Verdict struct {
	CheckGroup
	Outcome rule.Outcome
	Err     error         // why no store decided
	Delay   time.Duration // for how long queues hold the request
	at      time.Time     // when it was noted
	pass    rule.Pass
}

// Undecided is the outcome if the client left, or its time was up, before a store decided.
const Undecided rule.Outcome = ""

// Enforced returns the group of the checks that are enforced.
func (l *Limiter) Enforced(e *rule.Evaluation) CheckGroup {
	group := CheckGroup{Checks: e.Enforced, Mode: l.FailMode}
	if e.Blocked {
		group.Source = e.BlockedBy
	}
	return group
}

// DryRuns returns the groups of dry runs. Each check is decided by itself, so that none affects another, and
// none fails.
func DryRuns(e *rule.Evaluation) []CheckGroup {
	if len(e.DryRun)+len(e.DryBlocks) == 0 {
		return nil
	}
	groups := make([]CheckGroup, 0, len(e.DryRun)+len(e.DryBlocks))
	for i := range e.DryBlocks {
		blocked := e.DryBlocks[i : i+1 : i+1]
		groups = append(groups, CheckGroup{Checks: blocked, DryRun: true, Mode: limiter.FailLocal, Source: rule.BlockSource(&blocked[0])})
	}
	for i := range e.DryRun {
		groups = append(groups, CheckGroup{Checks: e.DryRun[i : i+1 : i+1], DryRun: true, Mode: limiter.FailLocal})
	}
	return groups
}

// Blocked reports whether a check is refused before a store is asked, and by what.
func Blocked(c *limiter.Check) (by limiter.Source, blocked bool) {
	if c.Result.Passes() {
		return "", false
	}
	return rule.BlockSource(c), true
}

// Outcome returns what becomes of a request by its checks, or by a fail mode if no store decided these.
func Outcome(checks []limiter.Check, undecided bool, mode limiter.FailMode) rule.Outcome {
	switch {
	case undecided && mode == limiter.FailOpen:
		return rule.FailedOpen
	case undecided:
		return rule.FailedClosed
	case limiter.Allowed(checks):
		return rule.Allowed
	}
	return rule.Denied
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

// Pending returns a check of a group that was decided, and whether the response decides what it costs.
func (l *Limiter) Pending(group *CheckGroup, i int) (p PendingCheck, waits bool) {
	c := &group.Checks[i]
	r := l.Rules.RuleOf(c)
	if !c.Result.Passes() || !r.AwaitsResponse() || rule.OnlyLooks(c) {
		return p, false
	}
	return PendingCheck{Check: *c, Rule: r, Source: group.Source, DryRun: group.DryRun}, true
}
