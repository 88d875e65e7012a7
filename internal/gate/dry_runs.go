package gate

import (
	"math/rand/v2"
	"time"

	"go.uber.org/zap"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/failover"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
)

// dryRuns are the dry runs of a request. They are decided in the batch of the enforced checks, as calls of their own, so
// that no request waits longer for them.
type dryRuns struct {
	refusals []rule.DryRefusal
	made     []Decision
	asked    []failover.DryRun // of the same decisions
	began    time.Time
}

// dryRunsOf returns the dry runs of a request, to be decided by [Exchange.ask]; nil if there are no dry runs.
func dryRunsOf(e *rule.Evaluation) *dryRuns {
	made := DryRuns(e)
	if len(made)+len(e.DryRefusals) == 0 {
		return nil
	}
	d := &dryRuns{refusals: e.DryRefusals, made: made, asked: make([]failover.DryRun, len(made)), began: time.Now()}
	for i := range made {
		d.asked[i] = failover.DryRun{Checks: made[i].Checks, Source: made[i].Source}
	}
	return d
}

// endDryRuns counts dry runs that were decided, and records the dry runs that would have denied.
func (x *Exchange) endDryRuns(d *dryRuns, input int64) {
	shared, l := x.decision, x.limiter
	for i := range d.refusals {
		l.countDryRefusal(shared, &d.refusals[i])
	}
	took := time.Since(d.began)
	for i := range d.made {
		made, asked := &d.made[i], &d.asked[i]
		if made.Outcome == "" && asked.Err == nil && asked.Source != "" { // otherwise it is blocked, or the client has left
			made.Conclude(asked.Source, nil)
		}
		if l.countsRunning {
			x.keepRunning(made.Checks)
		}
		if made.Outcome == "" {
			continue
		}
		shared.timedOut = shared.timedOut || made.Source == limiter.SourceFallback && l.isTimeout(took)
		if made.Outcome == limiter.OutcomeDenied {
			l.noteDryDenial(shared, made)
		}
		x.keepPending(made, input)
		l.count(made.Checks, made, rand.Uint64())
		l.countBans(made)
		if l.showsSigns {
			l.showSigns(made)
		}
	}
	if shared.outcome == "" {
		shared.outcome = limiter.OutcomeAllowed
	}
}

// noteDryDenial records a check of a dry-run rule that would have denied.
func (l *Limiter) noteDryDenial(shared *sharedDecision, made *Decision) {
	check := &made.Checks[0]
	shared.wouldDeny(check.Policy.Name(), check.Result.Banned)
	if c := l.Logger.Check(zap.DebugLevel, "request would be denied"); c != nil {
		c.Write(l.describe(made)...)
	}
}

// countDryRefusal counts a refusal by a dry-run rule. No store but this process is involved.
func (l *Limiter) countDryRefusal(shared *sharedDecision, refusal *rule.DryRefusal) {
	policy := refusal.Rule.Policy.Name()
	shared.wouldDeny(policy, false)
	l.Counters[refusal.Rule.Index].Count(limiter.OutcomeDryDenied, limiter.SourceMemory)
	if c := l.Logger.Check(zap.DebugLevel, "request would be denied"); c != nil {
		c.Write(zap.String("policy", policy), zap.Error(refusal.Err))
	}
}
