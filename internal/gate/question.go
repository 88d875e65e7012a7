package gate

import (
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/failover"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
)

// This file is the second step: what is decided?

// Question is checks that are decided together.
type Question struct {
	Checks []limiter.Check
	DryRun bool

	// Mode decides if Redis does not.
	Mode failover.FailMode

	// Source has decided; empty: nothing has so far. What is blocked is refused before a store is asked.
	Source limiter.Source
}

// Enforced returns the question about the checks that are enforced.
func (l *Limiter) Enforced(e *rule.Evaluation) Question {
	q := Question{Checks: e.Enforced, Mode: l.FailMode}
	if e.Blocked {
		q.Source = e.BlockedBy
	}
	return q
}

// DryRuns returns the questions about dry runs. Each check is decided by itself, so that none affects another, and
// none fails.
func DryRuns(e *rule.Evaluation) []Question {
	if len(e.DryRun)+len(e.DryBlocks) == 0 {
		return nil
	}
	questions := make([]Question, 0, len(e.DryRun)+len(e.DryBlocks))
	for i := range e.DryBlocks {
		blocked := e.DryBlocks[i : i+1 : i+1]
		questions = append(questions, Question{Checks: blocked, DryRun: true, Mode: failover.FailLocal, Source: rule.BlockSource(&blocked[0])})
	}
	for i := range e.DryRun {
		questions = append(questions, Question{Checks: e.DryRun[i : i+1 : i+1], DryRun: true, Mode: failover.FailLocal})
	}
	return questions
}

// Blocked reports whether a check is refused before a store is asked, and by what.
func Blocked(c *limiter.Check) (by limiter.Source, blocked bool) {
	if c.Result.Passes() {
		return "", false
	}
	return rule.BlockSource(c), true
}

// Outcome returns what becomes of a request by its checks, or by a fail mode if these could not be decided.
func Outcome(checks []limiter.Check, undecided bool, mode failover.FailMode) rule.Outcome {
	switch {
	case undecided && mode == failover.FailOpen:
		return rule.FailedOpen
	case undecided:
		return rule.FailedClosed
	case limiter.Allowed(checks):
		return rule.Allowed
	}
	return rule.Denied
}

// Verdict is what was decided about the checks that are enforced.
type Verdict struct {
	Question
	Outcome rule.Outcome // empty: nothing was decided, because the client left or its time was up
	Err     error        // why nothing was decided
	at      time.Time
	pass    rule.Pass
}
