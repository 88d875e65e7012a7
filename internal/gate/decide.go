package gate

import (
	"cmp"
	"errors"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
)

// Decide has the store decide about a request.
func (v *Visit) Decide(repl *caddy.Replacer, e *rule.Evaluation) Verdict {
	l, d := v.limiter, v.decisionFor(repl)
	v.use()
	dry := v.startDryRuns(e)
	if len(e.Enforced) == 0 {
		v.endDryRuns(dry)
		d.log(v.request)
		return Verdict{Outcome: rule.Allowed}
	}
	verdict := v.decide(l.Enforced(e))
	verdict.pass, d.pass = e.Pass, cmp.Or(d.pass, e.Pass.Taken)
	v.endDryRuns(dry)
	v.keepRunning(verdict.Checks)
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
		l.countBans(&verdict.Question)
	}
	d.log(v.request)
	if verdict.Outcome == rule.Allowed {
		v.keep(&verdict.Question)
	}
	return verdict
}

// decide decides a question, unless it is decided already.
func (v *Visit) decide(q Question) Verdict {
	start := time.Now()
	if q.Source != "" {
		return Verdict{Question: q, Outcome: rule.Denied, at: start}
	}
	l, d := v.limiter, v.decision
	source, err := v.asker()(&q)
	took := time.Since(start)
	switch {
	case source == limiter.SourceMemory:
		l.Process.MemorySeconds.Observe(took.Seconds())
	case err != nil || source == limiter.SourceFallback:
		d.timedOut = d.timedOut || l.isTimeout(took)
	}
	verdict := Verdict{Question: q, Err: err, at: start.Add(took)}
	verdict.Source = source
	if undecided := errors.Is(err, limiter.ErrUndecided); err == nil || undecided {
		verdict.Outcome = Outcome(q.Checks, undecided, q.Mode)
	}
	return verdict
}

// asker returns what has the stores of this moment decide a question. A request that has waited for Redis in vain does
// not wait again, so that the waits of several handlers do not add up.
func (v *Visit) asker() func(q *Question) (limiter.Source, error) {
	stores, ctx, timedOut := v.stores, v.request.Context(), v.decision.timedOut
	return func(q *Question) (limiter.Source, error) {
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
func (l *Limiter) countBans(q *Question) {
	for i := range q.Checks {
		if c := &q.Checks[i]; c.Result.BanBegins {
			l.Counters[l.Rules.RuleOf(c).Index].CountBan()
			l.Events.Banned(c, q.Source, q.DryRun)
		}
	}
}
