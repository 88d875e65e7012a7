package limiter

import (
	"context"
	"errors"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/kernel"
)

// mayLease reports whether a check of the request may be decided by a lease.
func mayLease(checks []Check) bool {
	for i := range checks {
		if checks[i].leases() {
			return true
		}
	}
	return false
}

// decideByLeases decides the checks whose units are leased here, and the others on the shared store. The
// deny cache comes after the leases: it does not have what was leased.
func (f *Failover) decideByLeases(ctx context.Context, mode FailMode, checks []Check, now time.Time) (Source, error) {
	if len(checks) > 1 {
		return f.decideManyByLeases(ctx, mode, checks, now)
	}
	k, spent := f.leases.spend(&checks[0], clock.MomentOf(now))
	if spent.number != 0 {
		return SourceLease, nil
	}
	return f.decideShared(ctx, mode, checks, k, now)
}

// spending is the units of a check that were taken from a lease.
type spending struct {
	check int
	key   *busyKey
	spent heldUnits
}

// decideManyByLeases does so for several checks. It takes the units that are here first, and puts them back
// if the others are denied.
func (f *Failover) decideManyByLeases(ctx context.Context, mode FailMode, checks []Check, now time.Time) (Source, error) {
	var space [4]spending
	spendings, busy := space[:0], []*busyKey(nil)
	for i := range checks {
		if !checks[i].leases() {
			continue
		}
		k, spent := f.leases.spend(&checks[i], clock.MomentOf(now))
		if spent.number != 0 {
			spendings = append(spendings, spending{i, k, spent})
		} else if k != nil {
			busy = append(busy, k)
		}
	}
	if len(spendings) == len(checks) {
		return SourceLease, nil
	}
	others := checks
	if len(spendings) > 0 {
		others = withoutSpent(checks, spendings)
	}
	source, err := f.decideShared(ctx, mode, others, nil, now)
	if source == SourceRedis && err == nil && len(busy) > 0 {
		f.leases.learnTrip(time.Since(now))
	}
	if len(spendings) > 0 {
		copyUnspent(checks, others, spendings)
	}
	passes := err == nil && Allowed(others) || mode == FailOpen && errors.Is(err, ErrUndecided)
	if !passes {
		for i := range spendings {
			f.leases.putBack(spendings[i].key, spendings[i].spent, &checks[spendings[i].check])
		}
		return source, err
	}
	for _, k := range busy {
		f.leases.askFor(k)
	}
	return source, err
}

// withoutSpent returns the checks whose units were not taken from leases.
func withoutSpent(checks []Check, spendings []spending) []Check {
	others := make([]Check, 0, len(checks)-len(spendings))
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
func copyUnspent(checks, others []Check, spendings []spending) {
	for i := range checks {
		if len(spendings) > 0 && spendings[0].check == i {
			spendings = spendings[1:]
			continue
		}
		checks[i], others = others[0], others[1:]
	}
}

// askForLease has the shared store decide the one check of a busy key, and lease units of it if none are
// asked for yet. It returns how many were leased.
func (f *Failover) askForLease(ctx context.Context, checks []Check, k *busyKey) (leased int64, err error) {
	q, c := f.leases.question(k), &checks[0]
	sent := clock.Now()
	if q.wish.Units == 0 {
		if err := f.shared.decide(ctx, checks); err != nil {
			return 0, err
		}
		f.leases.learnTrip(clock.Now().Since(sent))
		f.leases.saw(k, c)
		return 0, nil
	}
	if f.Retain() {
		defer f.Release() // what is leased may have to be given back at once
	}
	q.sent = sent
	missed := q
	missed.rest.left = 0 // its fate is counted
	l, err := f.shared.lease(ctx, c, q, func(late *Check, l kernel.Lease) {
		f.local.rememberLease(late, l.Units)
		f.leases.answered(missed, late.Unused(), late.Result.ResetAfter, l)
	})
	if err != nil {
		f.leases.failed(q, !errors.Is(err, ErrUndecided) || mayHaveRun(err))
		return 0, err
	}
	f.leases.learnTrip(clock.Now().Since(sent))
	f.leases.answered(q, c.Unused(), c.Result.ResetAfter, l)
	return l.Units, nil
}

// askAhead asks for a lease in the background. Its answer is remembered for an outage: that of a key whose
// requests are all decided by leases has no other.
func (f *Failover) askAhead(q leaseQuestion) {
	q.sent = clock.Now()
	check := Check{Policy: q.key.policy, Key: AsEncoded(q.key.key), Peek: true}
	if err := f.shared.leaseAsync(&check, q, func(c *call) {
		if c.err != nil {
			f.leases.failed(q, mayHaveRun(c.err))
			return
		}
		f.leases.learnTrip(clock.Now().Since(q.sent))
		f.local.rememberLease(&c.checks[0], c.leased().Units)
		f.leases.answered(q, c.checks[0].Unused(), c.checks[0].Result.ResetAfter, c.leased())
	}); err != nil {
		f.leases.failed(q, false)
	}
}

// giveBack gives units of a closed lease back in the background, at most once.
func (f *Failover) giveBack(k *busyKey, l heldUnits) {
	check := Check{Policy: k.policy, Key: AsEncoded(k.key), Peek: true}
	fate := func(err error) {
		if err != nil {
			f.leases.count(k, LeaseLapsed, l.left)
			return
		}
		f.leases.count(k, LeaseReturned, l.left)
	}
	if err := f.shared.leaseAsync(&check, leaseQuestion{rest: l}, func(c *call) { fate(c.err) }); err != nil {
		fate(err)
	}
}

// EndLeases gives back what this process has leased, in the background, and leases nothing more: the shared
// store is about to be closed, by [Redis.Close], which waits for what is given back.
func (f *Failover) EndLeases() { f.leases.close() }

// endLater returns a timer of a lease. It keeps the store open while the lease is given back.
func (f *Failover) endLater(d time.Duration, end func()) leaseTimer {
	return time.AfterFunc(d, func() {
		if f.Retain() {
			defer f.Release()
		}
		end()
	})
}

// Leased returns how many units of a key this process holds under the policies of a name, and for how long
// at most.
func (f *Failover) Leased(policy string, key EncodedKey) (units int64, lasts time.Duration) {
	return f.leases.held(policy, key.String())
}
