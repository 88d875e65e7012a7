package redisratelimit

import (
	"context"
	"sync"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

// peek is what a check finds that charges nothing.
type peek struct {
	check  limiter.Check
	mode   limiter.FailMode
	dryRun bool
	source limiter.Source
	err    error
}

// ask fills in the result, for a share that earlier handlers have taken from meanwhile. Where l.err says
// why Redis does not decide it is not asked.
func (p *peek) ask(ctx context.Context, guard *limiter.Failover, charged []limiter.Check) {
	asked, taken := p.check, int64(0)
	for i := range charged {
		if sameShare(&charged[i], &asked) {
			taken = addWeights(taken, charged[i].Weight)
		}
	}
	asked.Weight = addWeights(asked.Weight, taken)
	if p.err != nil {
		p.source = guard.PeekLocal(&asked)
	} else {
		p.source, p.err = guard.Peek(ctx, &asked)
	}
	p.check.Result = asked.Result
	p.check.Result.Remaining = max(0, asked.Result.Remaining-taken)
}

// undecided tells whether the fail mode decides.
func (p *peek) undecided() bool { return p.err != nil && p.mode != limiter.FailLocal }

func (p *peek) passes() bool {
	if p.undecided() {
		return p.mode == limiter.FailOpen
	}
	return p.check.Result.Passes()
}

// decision is what would be decided.
func (p *peek) decision() outcome {
	switch {
	case p.undecided() && p.mode == limiter.FailOpen:
		return outcomeFailedOpen
	case p.undecided():
		return outcomeFailedClosed
	case p.passes():
		return outcomeAllowed
	}
	return outcomeDenied
}

// sameShare tells whether two checks take from one share.
func sameShare(a, b *limiter.Check) bool { return a.Key == b.Key && a.Policy.ID() == b.Policy.ID() }

// peek looks at the shares of all checks at once, so that a Redis that does not answer is waited for
// but once. A look only reads, so that a probe finds out before whether Redis would decide, for all checks
// that are decided together.
func (e *explanation) peek(ctx context.Context, h *Handler, checks, dry []limiter.Check) []peek {
	var looking sync.WaitGroup
	var err, dryErr error
	looking.Go(func() { err = h.app.guard.Probe(ctx, checks) })
	looking.Go(func() { dryErr = h.app.guard.Probe(ctx, dry) })
	looking.Wait()
	looks := make([]peek, 0, len(checks)+len(dry))
	for _, check := range checks {
		looks = append(looks, peek{check: check, mode: h.FailMode, err: err})
	}
	for _, check := range dry {
		looks = append(looks, peek{check: check, mode: limiter.FailLocal, dryRun: true, err: dryErr})
	}
	for i := range looks {
		looking.Go(func() { looks[i].ask(ctx, h.app.guard, e.charged) })
	}
	looking.Wait()
	return looks
}
