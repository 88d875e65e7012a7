package gate

import (
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
)

// dryRuns are dry runs that are decided together with the checks that are enforced, so that no request waits longer
// for them.
type dryRuns struct {
	refusals  []rule.DryRefusal
	questions []CheckGroup
	began     time.Time
	pending   sync.WaitGroup
}

// startDryRuns begins to decide the dry runs; nil where there are none.
func (x *Exchange) startDryRuns(e *rule.Evaluation) *dryRuns {
	questions := DryRuns(e)
	if len(questions)+len(e.DryRefusals) == 0 {
		return nil
	}
	d := &dryRuns{refusals: e.DryRefusals, questions: questions, began: time.Now()}
	ask := x.asker() // before the enforced checks, which are decided meanwhile
	decide := func(q *CheckGroup) {
		source, err := ask(q)
		if err == nil {
			q.Source = source // stays empty if the client has left
		}
	}
	last := len(questions) - 1
	for i := range questions {
		q := &questions[i]
		switch {
		case q.Source != "":
		case x.stores.Redis == nil || i == last && len(e.Enforced) == 0:
			decide(q) // there is nothing to wait for beside it
		default:
			d.pending.Go(func() { decide(q) })
		}
	}
	return d
}

// endDryRuns waits for the dry runs, counts them and records those that would have denied.
func (x *Exchange) endDryRuns(d *dryRuns) {
	if d == nil {
		return
	}
	d.pending.Wait()
	joined, l := x.decision, x.limiter
	for i := range d.refusals {
		l.countDryRefusal(joined, &d.refusals[i])
	}
	fellBack := func(q CheckGroup) bool { return q.Source == limiter.SourceFallback }
	if slices.ContainsFunc(d.questions, fellBack) && l.isTimeout(time.Since(d.began)) {
		joined.timedOut = true
	}
	for i := range d.questions {
		q := &d.questions[i]
		x.keepRunning(q.Checks)
		if q.Source == "" {
			continue
		}
		would := rule.DryAllowed
		if !limiter.Allowed(q.Checks) {
			would = rule.DryDenied
			l.noteDryDenial(joined, q)
		}
		x.keep(q)
		l.count(q.Checks, would, q.Source)
		l.countBans(q)
	}
	if joined.outcome == "" {
		joined.outcome = rule.Allowed
	}
}

// noteDryDenial records a check of a dry-run rule that would have denied.
func (l *Limiter) noteDryDenial(joined *decision, q *CheckGroup) {
	check := &q.Checks[0]
	joined.wouldDeny(check.Policy.Name(), check.Result.Banned)
	if c := l.Logger.Check(zap.DebugLevel, "request would be denied"); c != nil {
		c.Write(l.describe(check, q.Source, rule.ReasonOf(q.Checks, q.Source))...)
	}
}

// countDryRefusal counts a refusal by a dry-run rule. No store but this process is involved.
func (l *Limiter) countDryRefusal(joined *decision, refusal *rule.DryRefusal) {
	policy := refusal.Rule.Policy.Name()
	joined.wouldDeny(policy, false)
	l.Counters[refusal.Rule.Index].Count(rule.DryDenied, limiter.SourceMemory)
	if c := l.Logger.Check(zap.DebugLevel, "request would be denied"); c != nil {
		c.Write(zap.String("policy", policy), zap.Error(refusal.Err))
	}
}
