package routetrace

import (
	"context"
	"net/http"
	"sync"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/adminapi"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/failover"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/gate"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
)

// peek is what a check finds that charges nothing.
type peek struct {
	check   limiter.Check
	mode    limiter.FailMode
	dryRun  bool
	blocked bool // it is refused without a decision
	source  limiter.Source
	err     error // why the store does not decide

	look  *adminapi.ExplainedLook // where the request only looks
	turn  *adminapi.ExplainedTurn // where requests wait
	waits bool                    // the request would wait
}

// peekAll peeks at the quotas of all checks at once, so that a Redis that does not answer is waited for
// once. A peek only reads; a probe finds out before whether Redis would decide all checks that are
// decided together.
func (e *explanation) peekAll(r *http.Request, l *gate.Limiter, evaluation *rule.Evaluation) (peeks []peek) {
	ctx := r.Context()
	for _, q := range append([]gate.CheckGroup{l.Enforced(evaluation)}, gate.DryRuns(evaluation)...) {
		for _, check := range q.Checks {
			by, blocked := gate.Blocked(&check)
			peeks = append(peeks, peek{check: check, mode: q.Mode, dryRun: q.DryRun, source: by, blocked: blocked})
		}
	}
	var asking sync.WaitGroup
	var err, dryErr error
	asking.Go(func() { err = l.Stores.Probe(ctx, openChecks(peeks, false)) })
	asking.Go(func() { dryErr = l.Stores.Probe(ctx, openChecks(peeks, true)) })
	asking.Wait()
	for i := range peeks {
		p := &peeks[i]
		if p.blocked {
			continue
		}
		if p.err = err; p.dryRun {
			p.err = dryErr
		}
		asking.Go(func() { p.run(ctx, l.Stores.Store, e.charged) })
	}
	asking.Wait()
	for i := range peeks {
		peeks[i].explainTurn(r, l, evaluation)
	}
	return peeks
}

// openChecks returns the checks that are not blocked, of dry runs or of those that are enforced.
func openChecks(peeks []peek, dryRun bool) (checks []limiter.Check) {
	for i := range peeks {
		if p := &peeks[i]; p.dryRun == dryRun && !p.blocked {
			checks = append(checks, p.check)
		}
	}
	return checks
}

// run fills in the result, for a quota that earlier limiters have taken from meanwhile. A store that does
// not decide is not asked.
func (p *peek) run(ctx context.Context, store *failover.Store, charged []limiter.Check) {
	if p.check.Look {
		p.look = &adminapi.ExplainedLook{Charged: !rule.OnlyLooks(&p.check), InFlight: store.LookingAt(&p.check), Most: p.check.InFlight}
	}
	check, taken := p.check, int64(0)
	for i := range charged {
		if charged[i].SameQuota(&check) {
			taken = rule.AddWeights(taken, limiter.Taken(&charged[i]))
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
func (p *peek) undecided() bool { return p.err != nil && p.mode != limiter.FailLocal }

// outcome is what would become of the request by this check.
func (p *peek) outcome() rule.Outcome {
	return gate.Outcome([]limiter.Check{p.check}, p.undecided(), p.mode)
}
