package failover

import (
	"context"
	"sync"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/lease"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redis"
)

// DryRun is checks that are decided beside those of a request, apart from them and from other dry runs: charged
// whatever these decide, and without a part in the request's answer.
type DryRun struct {
	Checks []limiter.Check

	// Source and Err are what [Store.DecideIn] would return with [limiter.FailLocal]. A Source that is set before says that
	// nothing is to be decided.
	Source limiter.Source
	Err    error

	needs  needs
	began  clock.Moment
	asked  redis.Asked
	waits  bool            // for asked
	answer func(err error) // of [Behavior].OnAsk; may be nil
}

// DecideBeside decides a request's checks as [Store.DecideIn] does, and dry runs beside them. On a Redis without slots
// the dry runs usually leave in the same batch, as calls of their own: a sender that becomes free in between may take some of
// them earlier. On a Cluster they leave at the same time. There may be no checks, or
// no dry runs. The source and the error are those of the checks.
func (f *Store) DecideBeside(ctx context.Context, mode limiter.FailMode, checks []limiter.Check, dryRuns []DryRun) (limiter.Source, error) {
	var parallel sync.WaitGroup
	for i := range dryRuns {
		if d := &dryRuns[i]; d.Source == "" {
			f.beginDryRun(ctx, d, &parallel)
		}
	}
	var source limiter.Source
	var err error
	if len(checks) > 0 {
		source, err = f.DecideIn(ctx, mode, checks)
	}
	sent := false
	for i := range dryRuns {
		d := &dryRuns[i]
		if !d.waits {
			continue
		}
		if !sent {
			f.shared.SendAsked()
			sent = true
		}
		answer := f.shared.AnswerTo(ctx, d.asked, d.Checks)
		if d.answer != nil {
			d.answer(answer)
		}
		d.waits = false
		d.Source, d.Err = f.conclude(limiter.FailLocal, d.Checks, d.needs, 0, answer, d.began)
	}
	parallel.Wait()
	return source, err
}

// beginDryRun decides a dry run if that takes no query, and otherwise asks Redis.
func (f *Store) beginDryRun(ctx context.Context, d *DryRun, parallel *sync.WaitGroup) {
	if f.shared == nil {
		d.Source, d.Err = f.DecideIn(ctx, limiter.FailLocal, d.Checks)
		return
	}
	if d.Err = limiter.Prepare(d.Checks); d.Err != nil {
		d.Source = limiter.SourceRedis
		return
	}
	d.began, d.needs = clock.Now(), f.needsOf(d.Checks)
	inParallel := f.shared.Slotted.Load() // the checks may lie on several nodes
	for i := range d.Checks {
		inParallel = inParallel || lease.MayDecide(&d.Checks[i]) // a lease may have to be asked for
	}
	if inParallel {
		parallel.Go(func() { d.Source, d.Err = f.DecideIn(ctx, limiter.FailLocal, d.Checks) })
		return
	}
	if d.Source = f.refuse(limiter.FailLocal, d.Checks, d.needs, d.began); d.Source != "" {
		return
	}
	if f.ledger != nil && f.ledger.size.Load() > 0 {
		f.ledger.repayAhead(d.Checks)
	}
	if f.onAsk != nil {
		d.answer = f.onAsk(ctx)
	}
	asked, err := f.shared.Ask(ctx, d.Checks)
	if err == nil {
		d.asked, d.waits = asked, true
		return
	}
	if d.answer != nil {
		d.answer(err)
	}
	d.Source, d.Err = f.conclude(limiter.FailLocal, d.Checks, d.needs, 0, err, d.began)
}
