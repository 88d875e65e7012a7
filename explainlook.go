package redisratelimit

import (
	"context"
	"sync"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

// look is what a check finds that charges nothing.
type look struct {
	check  limiter.Check
	mode   limiter.FailMode
	dryRun bool
	source limiter.Source
	err    error
}

// ask fills in the result, for a share that earlier handlers have taken from meanwhile. Where l.err says
// why Redis does not decide it is not asked.
func (l *look) ask(ctx context.Context, guard *limiter.Guard, charged []limiter.Check) {
	asked, taken := l.check, int64(0)
	for i := range charged {
		if sameShare(&charged[i], &asked) {
			taken = addWeights(taken, charged[i].Weight)
		}
	}
	asked.Weight = addWeights(asked.Weight, taken)
	if l.err != nil {
		l.source = guard.LookWithout(&asked)
	} else {
		l.source, l.err = guard.Look(ctx, &asked)
	}
	l.check.Result = asked.Result
	l.check.Result.Remaining = max(0, asked.Result.Remaining-taken)
}

// undecided tells whether the fail mode decides.
func (l *look) undecided() bool { return l.err != nil && l.mode != limiter.FailLocal }

func (l *look) passes() bool {
	if l.undecided() {
		return l.mode == limiter.FailOpen
	}
	return l.check.Result.Passes()
}

// decision is what would be decided.
func (l *look) decision() outcome {
	switch {
	case l.undecided() && l.mode == limiter.FailOpen:
		return outcomeFailedOpen
	case l.undecided():
		return outcomeFailedClosed
	case l.passes():
		return outcomeAllowed
	}
	return outcomeDenied
}

// sameShare tells whether two checks take from one share.
func sameShare(a, b *limiter.Check) bool { return a.Key == b.Key && a.Policy.ID() == b.Policy.ID() }

// look looks at the shares of all checks at once, so that a Redis that does not answer is waited for
// but once. A look only reads, so that a probe finds out before whether Redis would decide, for all checks
// that are decided together.
func (e *explanation) look(ctx context.Context, h *Handler, checks, dry []limiter.Check) []look {
	var looking sync.WaitGroup
	var err, dryErr error
	looking.Go(func() { err = h.app.guard.Probe(ctx, checks) })
	looking.Go(func() { dryErr = h.app.guard.Probe(ctx, dry) })
	looking.Wait()
	looks := make([]look, 0, len(checks)+len(dry))
	for _, check := range checks {
		looks = append(looks, look{check: check, mode: h.FailMode, err: err})
	}
	for _, check := range dry {
		looks = append(looks, look{check: check, mode: limiter.FailLocal, dryRun: true, err: dryErr})
	}
	for i := range looks {
		looking.Go(func() { looks[i].ask(ctx, h.app.guard, e.charged) })
	}
	looking.Wait()
	return looks
}
