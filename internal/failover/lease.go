package failover

import (
	"context"
	"errors"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/kernel"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/lease"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redis"
)

// decideByLeases decides the checks whose units are leased here, and the others on the shared store. The
// deny cache comes after the leases: it does not have what was leased.
func (f *Store) decideByLeases(ctx context.Context, mode limiter.FailMode, checks []limiter.Check, now clock.Moment) (limiter.Source, error) {
	if len(checks) > 1 {
		return f.decideManyByLeases(ctx, mode, checks, now)
	}
	if !lease.MayDecide(&checks[0]) {
		return f.decideShared(ctx, mode, checks, nil, now)
	}
	k, spent := f.leases.Spend(&checks[0], now)
	if spent.Number != 0 {
		return limiter.SourceLease, nil
	}
	return f.decideShared(ctx, mode, checks, k, now)
}

// spending is the units of a check that were taken from a lease.
type spending struct {
	check int
	key   *lease.BusyKey
	spent lease.HeldUnits
}

// decideManyByLeases decides several checks. It takes the units that are leased here first, and puts them back if the
// others are denied.
func (f *Store) decideManyByLeases(ctx context.Context, mode limiter.FailMode, checks []limiter.Check, now clock.Moment) (limiter.Source, error) {
	var space [4]spending
	spendings, busy := space[:0], []*lease.BusyKey(nil)
	for i := range checks {
		if !lease.MayDecide(&checks[i]) {
			continue
		}
		k, spent := f.leases.Spend(&checks[i], now)
		if spent.Number != 0 {
			spendings = append(spendings, spending{i, k, spent})
		} else if k != nil {
			busy = append(busy, k)
		}
	}
	if len(spendings) == len(checks) {
		return limiter.SourceLease, nil
	}
	others := checks
	if len(spendings) > 0 {
		others = withoutSpent(checks, spendings)
	}
	source, err := f.decideShared(ctx, mode, others, nil, now)
	if source == limiter.SourceRedis && err == nil && len(busy) > 0 {
		f.leases.LearnTrip(clock.Now().Since(now))
	}
	if len(spendings) > 0 {
		copyUnspent(checks, others, spendings)
	}
	passes := err == nil && limiter.Allowed(others) || mode == limiter.FailOpen && errors.Is(err, limiter.ErrUndecided)
	if !passes {
		for i := range spendings {
			f.leases.PutBack(spendings[i].key, spendings[i].spent, &checks[spendings[i].check])
		}
		return source, err
	}
	for _, k := range busy {
		f.leases.AskFor(k)
	}
	return source, err
}

// withoutSpent returns the checks whose units were not taken from leases.
func withoutSpent(checks []limiter.Check, spendings []spending) []limiter.Check {
	others := make([]limiter.Check, 0, len(checks)-len(spendings))
	for i := range checks {
		if len(spendings) > 0 && spendings[0].check == i {
			spendings = spendings[1:]
			continue
		}
		others = append(others, checks[i])
	}
	return others
}

// copyUnspent copies what became of these checks back.
func copyUnspent(checks, others []limiter.Check, spendings []spending) {
	for i := range checks {
		if len(spendings) > 0 && spendings[0].check == i {
			spendings = spendings[1:]
			continue
		}
		checks[i], others = others[0], others[1:]
	}
}

// askForLease has the shared store decide the one check of a busy key and lease units of the key, unless a question for
// units is under way. It returns how many units were leased.
func (f *Store) askForLease(ctx context.Context, checks []limiter.Check, k *lease.BusyKey) (leased int64, err error) {
	q, c := f.leases.Question(k), &checks[0]
	sent := clock.Now()
	if q.Wish.Units == 0 {
		if err := f.shared.DecideWithin(ctx, checks); err != nil {
			return 0, err
		}
		f.leases.LearnTrip(clock.Now().Since(sent))
		f.leases.Saw(k, c)
		return 0, nil
	}
	if f.retain() {
		defer f.release() // what is leased may have to be given back at once
	}
	q.Sent = sent
	missed := q
	missed.Rest.Left = 0 // its fate is counted
	l, err := f.shared.Lease(ctx, c, q, func(late *limiter.Check, l kernel.Lease) {
		f.local.RememberLease(late, l.Units)
		f.leases.Answered(missed, late.Unused(), late.Result.ResetAfter, l)
	})
	if err != nil {
		f.leases.Failed(q, !errors.Is(err, limiter.ErrUndecided) || redis.MayHaveRun(err))
		return 0, err
	}
	f.leases.LearnTrip(clock.Now().Since(sent))
	f.leases.Answered(q, c.Unused(), c.Result.ResetAfter, l)
	return l.Units, nil
}

// askAhead asks for a lease in the background. Its answer is remembered for an outage: that of a key whose
// requests are all decided by leases has no other.
func (f *Store) askAhead(q lease.Question) {
	q.Sent = clock.Now()
	check := limiter.Check{Policy: q.Key.Policy, Key: limiter.AsEncoded(q.Key.Key), Peek: true}
	f.shared.LeaseAsync(&check, q, func(e redis.Ended) {
		answer := e.Answer()
		if answer == nil {
			f.leases.Failed(q, e.Unsent() == nil)
			return
		}
		c, got := &answer.Checks[0], answer.Lease.Got
		f.leases.LearnTrip(clock.Now().Since(q.Sent))
		f.local.RememberLease(c, got.Units)
		f.leases.Answered(q, c.Unused(), c.Result.ResetAfter, got)
	})
}

// giveBack gives units of a closed lease back in the background, at most once.
func (f *Store) giveBack(k *lease.BusyKey, l lease.HeldUnits) {
	check := limiter.Check{Policy: k.Policy, Key: limiter.AsEncoded(k.Key), Peek: true}
	f.shared.LeaseAsync(&check, lease.Question{Rest: l}, func(e redis.Ended) {
		fate := limiter.LeaseReturned
		if e.Err() != nil {
			fate = limiter.LeaseLapsed
		}
		f.leases.Count(k, fate, l.Left)
	})
}

// EndLeases gives back what this process has leased, in the background, and leases nothing more: the shared
// store is about to be closed, by [redis.Store.Close], which waits for what is given back.
func (f *Store) EndLeases() { f.leases.Close() }

// endLater returns a timer of a lease. It keeps the store open while the lease is given back.
func (f *Store) endLater(d time.Duration, end func()) clock.Timer {
	return time.AfterFunc(d, func() {
		if f.retain() {
			defer f.release()
		}
		end()
	})
}

// Leased returns how many units of a key this process holds under the policies of a name, and for how long
// at most.
func (f *Store) Leased(policy string, key limiter.EncodedKey) (units int64, lasts time.Duration) {
	return f.leases.Held(policy, key.String())
}
