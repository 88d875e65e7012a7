package gate

import (
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
)

// dryRuns are dry runs that are decided at the same time as the checks that are enforced, so that no request waits
// longer for them.
type dryRuns struct {
	refusals []rule.DryRefusal
	groups   []CheckGroup
	timedOut bool // the request has waited for Redis in vain before
	began    time.Time
	pending  sync.WaitGroup
}

// startDryRuns begins to decide the dry runs; nil if there are none. [Exchange.endDryRuns] waits for them, after the
// enforced checks were decided.
func (x *Exchange) startDryRuns(e *rule.Evaluation) *dryRuns {
	groups := DryRuns(e)
	if len(groups)+len(e.DryRefusals) == 0 {
		return nil
	}
	d := &dryRuns{refusals: e.DryRefusals, groups: groups, timedOut: x.decision.timedOut, began: time.Now()}
	last := len(groups) - 1
	for i := range groups {
		group := &groups[i]
		switch {
		case group.Source != "":
		case x.stores.Redis == nil || i == last && len(e.Enforced) == 0:
			x.decideDryRun(d, group) // there is nothing to wait for beside it
		default:
			d.pending.Go(func() { x.decideDryRun(d, group) })
		}
	}
	return d
}

// decideDryRun decides one group. Its source stays empty if the client has left.
func (x *Exchange) decideDryRun(d *dryRuns, group *CheckGroup) {
	if source, err := x.ask(group, d.timedOut); err == nil {
		group.Source = source
	}
}

// endDryRuns waits for the dry runs, counts them and records those that would have denied.
func (x *Exchange) endDryRuns(d *dryRuns) {
	d.pending.Wait()
	shared, l := x.decision, x.limiter
	for i := range d.refusals {
		l.countDryRefusal(shared, &d.refusals[i])
	}
	took := time.Since(d.began)
	for i := range d.groups {
		group := &d.groups[i]
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
		x.keepPending(group)
		l.count(group.Checks, outcome, group.Source)
		l.countBans(group)
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
