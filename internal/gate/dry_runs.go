package gate

import (
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
	groups   []CheckGroup
	asked    []failover.DryRun // of the same groups
	began    time.Time
}

// dryRunsOf returns the dry runs of a request, to be decided by [Exchange.ask]; nil if there are none.
func dryRunsOf(e *rule.Evaluation) *dryRuns {
	groups := DryRuns(e)
	if len(groups)+len(e.DryRefusals) == 0 {
		return nil
	}
	d := &dryRuns{refusals: e.DryRefusals, groups: groups, asked: make([]failover.DryRun, len(groups)), began: time.Now()}
	for i := range groups {
		d.asked[i] = failover.DryRun{Checks: groups[i].Checks, Source: groups[i].Source}
	}
	return d
}

// endDryRuns counts dry runs that were decided, and records those that would have denied.
func (x *Exchange) endDryRuns(d *dryRuns, input int64) {
	shared, l := x.decision, x.limiter
	for i := range d.refusals {
		l.countDryRefusal(shared, &d.refusals[i])
	}
	took := time.Since(d.began)
	for i := range d.groups {
		group := &d.groups[i]
		if d.asked[i].Err == nil { // otherwise the client has left
			group.Source = d.asked[i].Source
		}
		if l.countsRunning {
			x.keepRunning(group.Checks)
		}
		if group.Source == "" {
			continue
		}
		shared.timedOut = shared.timedOut || group.Source == limiter.SourceFallback && l.isTimeout(took)
		outcome := rule.DryAllowed
		if !limiter.Allowed(group.Checks) {
			outcome = rule.DryDenied
			l.noteDryDenial(shared, group)
		}
		x.keepPending(group, input)
		l.count(group.Checks, outcome, group.Source, d.began)
		l.countBans(group)
		if l.Webhook != nil {
			l.showSigns(group)
		}
	}
	if shared.outcome == "" {
		shared.outcome = rule.Allowed
	}
}

// noteDryDenial records a check of a dry-run rule that would have denied.
func (l *Limiter) noteDryDenial(shared *decision, group *CheckGroup) {
	check := &group.Checks[0]
	shared.wouldDeny(check.Policy.Name(), check.Result.Banned)
	if c := l.Logger.Check(zap.DebugLevel, "request would be denied"); c != nil {
		c.Write(l.describe(check, group.Source, rule.ReasonOf(group.Checks, group.Source))...)
	}
}

// countDryRefusal counts a refusal by a dry-run rule. No store but this process is involved.
func (l *Limiter) countDryRefusal(shared *decision, refusal *rule.DryRefusal) {
	policy := refusal.Rule.Policy.Name()
	shared.wouldDeny(policy, false)
	l.Counters[refusal.Rule.Index].Count(rule.DryDenied, limiter.SourceMemory)
	if c := l.Logger.Check(zap.DebugLevel, "request would be denied"); c != nil {
		c.Write(zap.String("policy", policy), zap.Error(refusal.Err))
	}
}
