package gate

import (
	"cmp"
	"errors"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/failover"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
)

// Decide has the store decide about a request.
func (x *Exchange) Decide(repl *caddy.Replacer, e *rule.Evaluation) Verdict {
	l, d := x.limiter, x.decisionFor(repl)
	x.acquireStores()
	dry := x.startDryRuns(e)
	if len(e.Enforced) == 0 {
		x.endDryRuns(dry)
		d.log(x.request)
		return Verdict{Outcome: rule.Allowed}
	}
	verdict := x.decide(l.Enforced(e))
	verdict.pass, d.pass = e.Pass, cmp.Or(d.pass, e.Pass.Taken)
	x.endDryRuns(dry)
	x.keepRunning(verdict.Checks)
	switch {
	case verdict.Err == nil:
		d.add(&verdict, l.Formats)
	case verdict.Outcome == "":
		return verdict
	default:
		d.fail(verdict.Outcome)
	}
	l.count(verdict.Checks, verdict.Outcome, d.source)
	if verdict.Err == nil {
		l.countBans(&verdict.CheckGroup)
	}
	d.log(x.request)
	if verdict.Outcome == rule.Allowed {
		x.keep(&verdict.CheckGroup)
	}
	return verdict
}

// decide decides a question, unless it is decided already.
func (x *Exchange) decide(q CheckGroup) Verdict {
	start := time.Now()
	if q.Source != "" {
		return Verdict{CheckGroup: q, Outcome: rule.Denied, at: start}
	}
	l, d := x.limiter, x.decision
	source, err := x.asker()(&q)
	took := time.Since(start)
	switch {
	case source == limiter.SourceMemory:
		l.Process.MemorySeconds.Observe(took.Seconds())
	case err != nil || source == limiter.SourceFallback:
		d.timedOut = d.timedOut || l.isTimeout(took)
	}
	verdict := Verdict{CheckGroup: q, Err: err, at: start.Add(took)}
	verdict.Source = source
	if undecided := errors.Is(err, limiter.ErrUndecided); err == nil || undecided {
		verdict.Outcome = Outcome(q.Checks, undecided, q.Mode)
	}
	return verdict
}

// asker returns what has the stores of this moment decide a question. A request that has waited for Redis in vain does
// not wait again, so that the waits of several handlers do not add up.
func (x *Exchange) asker() func(q *CheckGroup) (limiter.Source, error) {
	stores, ctx, timedOut := x.stores, x.request.Context(), x.decision.timedOut
	return func(q *CheckGroup) (limiter.Source, error) {
		if timedOut {
			return stores.Fallback(q.Mode, q.Checks, limiter.ErrAlreadyTimedOut)
		}
		return stores.DecideIn(ctx, q.Mode, q.Checks)
	}
}

// isTimeout reports whether a request without an answer for so long has waited for one, and was not refused
// at once.
func (l *Limiter) isTimeout(took time.Duration) bool { return took >= l.Timeout/2 }

// count counts what was decided: for a denial only the policies that denied, for anything else all.
func (l *Limiter) count(checks []limiter.Check, o rule.Outcome, s limiter.Source) {
	for i := range checks {
		counters := l.Counters[l.Rules.RuleOf(&checks[i]).Index]
		if o == rule.Denied && checks[i].Result.Passes() {
			counters.CountDeniedByOthers()
			continue
		}
		counters.Count(o, s)
		if o == rule.Denied {
			counters.Top.Add(checks[i].Key.String())
		}
	}
}

// countBans counts the bans that a request began, and emits their events. A ban that a dry run begins is
// one: another handler with the policy enforces it.
func (l *Limiter) countBans(q *CheckGroup) {
	for i := range q.Checks {
		if c := &q.Checks[i]; c.Result.BanBegins {
			l.Counters[l.Rules.RuleOf(c).Index].CountBan()
			l.Events.Banned(c, q.Source, q.DryRun)
		}
	}
}

// This file is the second step: what is decided?

// CheckGroup is checks that are decided together.
type CheckGroup struct {
	Checks []limiter.Check
	DryRun bool

	// Mode decides if Redis does not.
	Mode failover.FailMode

	// Source has decided; empty: nothing has so far. What is blocked is refused before a store is asked.
	Source limiter.Source
}

// Enforced returns the question about the checks that are enforced.
func (l *Limiter) Enforced(e *rule.Evaluation) CheckGroup {
	q := CheckGroup{Checks: e.Enforced, Mode: l.FailMode}
	if e.Blocked {
		q.Source = e.BlockedBy
	}
	return q
}

// DryRuns returns the questions about dry runs. Each check is decided by itself, so that none affects another, and
// none fails.
func DryRuns(e *rule.Evaluation) []CheckGroup {
	if len(e.DryRun)+len(e.DryBlocks) == 0 {
		return nil
	}
	questions := make([]CheckGroup, 0, len(e.DryRun)+len(e.DryBlocks))
	for i := range e.DryBlocks {
		blocked := e.DryBlocks[i : i+1 : i+1]
		questions = append(questions, CheckGroup{Checks: blocked, DryRun: true, Mode: failover.FailLocal, Source: rule.BlockSource(&blocked[0])})
	}
	for i := range e.DryRun {
		questions = append(questions, CheckGroup{Checks: e.DryRun[i : i+1 : i+1], DryRun: true, Mode: failover.FailLocal})
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
	CheckGroup
	Outcome rule.Outcome // empty: nothing was decided, because the client left or its time was up
	Err     error        // why nothing was decided
	at      time.Time
	pass    rule.Pass
}
