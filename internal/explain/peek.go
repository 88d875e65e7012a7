package explain

import (
	"context"
	"sync"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/routetrace"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/failover"
)

// peek is what a check finds that charges nothing.
type peek struct {
	check  limiter.Check
	mode   failover.FailMode
	dryRun bool
	source limiter.Source
	err    error // why the store does not decide
}

// peekAll peeks at the quotas of all checks at once, so that a Redis that does not answer is waited for
// once. A peek only reads; a probe finds out before whether Redis would decide, for all checks that are
// decided together.
func (e *explanation) peekAll(ctx context.Context, l *routetrace.Limiter, evaluation *rule.Evaluation) []peek {
	var asking sync.WaitGroup
	var err, dryErr error
	blocked, enforced := splitBlocked(evaluation)
	asking.Go(func() { err = l.Store.Probe(ctx, enforced) })
	asking.Go(func() { dryErr = l.Store.Probe(ctx, evaluation.DryRun) })
	asking.Wait()
	peeks := make([]peek, 0, len(evaluation.Enforced)+len(evaluation.DryRun)+len(evaluation.DryBlocks))
	for _, check := range enforced {
		peeks = append(peeks, peek{check: check, mode: l.FailMode, err: err})
	}
	for _, check := range evaluation.DryRun {
		peeks = append(peeks, peek{check: check, mode: failover.FailLocal, dryRun: true, err: dryErr})
	}
	for i := range peeks {
		asking.Go(func() { peeks[i].run(ctx, l.Store, e.charged) })
	}
	asking.Wait()
	for _, check := range blocked {
		peeks = append(peeks, peek{check: check, mode: failover.FailLocal, source: rule.BlockSource(&check)})
	}
	for _, check := range evaluation.DryBlocks {
		peeks = append(peeks, peek{check: check, mode: failover.FailLocal, dryRun: true, source: rule.BlockSource(&check)})
	}
	return peeks
}

// splitBlocked parts the enforced checks into those that are refused without a decision and those that a store decides.
func splitBlocked(e *rule.Evaluation) (blocked, decided []limiter.Check) {
	if !e.Blocked {
		return nil, e.Enforced
	}
	for _, check := range e.Enforced {
		if check.Result.Passes() {
			decided = append(decided, check)
		} else {
			blocked = append(blocked, check)
		}
	}
	return blocked, decided
}

// run fills in the result, for a quota that earlier limiters have taken from meanwhile. A store that does
// not decide is not asked.
func (p *peek) run(ctx context.Context, store *failover.Store, charged []limiter.Check) {
	check, taken := p.check, int64(0)
	for i := range charged {
		if charged[i].SameQuota(&check) {
			taken = rule.AddWeights(taken, charged[i].Weight)
		}
	}
	check.Weight = rule.AddWeights(check.Weight, taken)
	if p.err != nil {
		p.source = store.PeekLocal(&check)
	} else {
		p.source, p.err = store.Peek(ctx, &check)
	}
	p.check.Result = check.Result
	p.check.Result.Remaining = max(0, check.Result.Remaining-taken)
}

// undecided reports whether the fail mode decides.
func (p *peek) undecided() bool { return p.err != nil && p.mode != failover.FailLocal }

func (p *peek) passes() bool {
	if p.undecided() {
		return p.mode == failover.FailOpen
	}
	return p.check.Result.Passes()
}

// decision is what would be decided.
func (p *peek) decision() rule.Outcome {
	switch {
	case p.undecided() && p.mode == failover.FailOpen:
		return rule.FailedOpen
	case p.undecided():
		return rule.FailedClosed
	case p.passes():
		return rule.Allowed
	}
	return rule.Denied
}
