package failover

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// This file counts what requests in flight may still refund, for those that are denied meanwhile:
//
//	0.0 s  Seven log-ins at once. Five take the limit of 5 in 15 minutes, two are denied.
//	0.6 s  The five passwords were right, and their units are refunded.
//
// The two may come back in a second, and not in 15 minutes.

const (
	// refundSpan is for how long a refund is known here. A denial that was decided before it arrives within
	// that time.
	refundSpan = time.Second

	// maxAwaited is the most requests of a quota whose answers a denied one waits for.
	maxAwaited = 16
)

// reservations are the units of requests in flight that may be refunded.
type reservations struct {
	sweeps clock.Task
	shards limiter.Shards[reservationShard]
}

type reservationShard struct {
	mu     sync.Mutex
	quotas map[reservedQuota]reservedUnits // nil before the first
}

// reservedQuota is a quota in Redis, or here: of the other one nothing is refunded.
type reservedQuota struct {
	limiter.QuotaName
	here bool
}

type reservedUnits struct {
	asked    map[*reservation]bool // of checks that Redis decides now
	open     map[*reservation]bool // of checks that have passed
	begun    int64                 // how many have
	refunded clock.Moment          // when units of it were last refunded; 0: none
}

// reservation is the units of one check, and what it owes of them in an outage.
type reservation struct {
	of      *reservations // nil: no request waits for its end
	owed    owedTake
	quota   reservedQuota
	units   int64
	until   clock.Moment  // from when nothing of them is left
	asked   bool          // Redis decides the check now
	decided chan struct{} // closed after that; nil: no request waits for it
}

// reservationOf returns that of a check, nil where it has none.
func reservationOf(c *limiter.Check) *reservation {
	r, _ := c.State.Owner.(*reservation)
	return r
}

// start has the units be swept.
func (rs *reservations) start() {
	rs.sweeps.Weak = true
	rs.sweeps.Run = func() {
		if rs.sweep(clock.Now()) > 0 {
			rs.sweeps.Start(clock.SweepSpan)
		}
	}
}

// change changes the units of a quota.
func (rs *reservations) change(of reservedQuota, do func(q *reservedUnits)) {
	s := rs.shards.Of(of.Key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.quotas == nil {
		s.quotas = map[reservedQuota]reservedUnits{}
	}
	q, found := s.quotas[of]
	if !found {
		q = reservedUnits{asked: map[*reservation]bool{}, open: map[*reservation]bool{}}
	}
	do(&q)
	s.quotas[of] = q
	rs.sweeps.Start(clock.SweepSpan)
}

var _ limiter.Awaited = (*reservation)(nil) // a check holds it as any

// ask counts a check that Redis is about to decide.
func (r *reservation) ask() {
	r.asked, r.until = true, clock.Now().Add(time.Minute)
	r.of.change(r.quota, func(q *reservedUnits) { q.asked[r] = true })
}

// Begin implements [limiter.Awaited], before the answer to any request that was denied for the units is known.
func (r *reservation) Begin(units int64, whole time.Duration) {
	if r.of == nil {
		return
	}
	r.of.change(r.quota, func(q *reservedUnits) {
		r.units, r.until = units, clock.Now().Add(whole)
		q.answer(r)
		q.open[r] = true
		q.begun++
	})
}

// answered ends what [reservation.ask] has begun, whatever the answer.
func (r *reservation) answered() {
	if r != nil && r.of != nil {
		r.of.change(r.quota, func(q *reservedUnits) { q.answer(r) })
	}
}

func (q *reservedUnits) answer(r *reservation) {
	if !r.asked {
		return
	}
	r.asked = false
	delete(q.asked, r)
	if r.decided != nil {
		close(r.decided)
	}
}

// End implements [limiter.Awaited]. Ended once more, or before it has begun, a reservation changes nothing.
func (r *reservation) End(refunded bool) {
	if r.of == nil {
		return
	}
	r.of.change(r.quota, func(q *reservedUnits) {
		if refunded && q.open[r] {
			q.refunded = clock.Now()
		}
		delete(q.open, r)
	})
}

// count returns the units of a quota that may be refunded and how many checks have taken some, and reports whether
// there are any or were a moment ago.
func (rs *reservations) count(of reservedQuota, now clock.Moment) (units, begun int64, found bool) {
	s := rs.shards.Of(of.Key)
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.quotas[of]
	for r := range q.open {
		if r.until > now {
			units, found = units+r.units, true
		}
	}
	return units, q.begun, found || q.refundedBy(now)
}

func (q *reservedUnits) refundedBy(now clock.Moment) bool {
	return q.refunded > 0 && now.Since(q.refunded) < refundSpan
}

// sweep drops what is over, and returns how many quotas are left.
func (rs *reservations) sweep(now clock.Moment) (left int) {
	for s := range rs.shards.All() {
		s.mu.Lock()
		for name, q := range s.quotas {
			maps.DeleteFunc(q.open, func(r *reservation, _ bool) bool { return r.until <= now })
			if len(q.open)+len(q.asked) == 0 && !q.refundedBy(now) {
				delete(s.quotas, name)
			}
		}
		left += len(s.quotas)
		s.mu.Unlock()
	}
	return left
}

// awaitAnswers waits for requests that Redis decides now, some of which it may have let through before the one
// that asks. It reports whether the context has ended before.
func (rs *reservations) awaitAnswers(ctx context.Context, of reservedQuota) (ended bool) {
	var space [maxAwaited]chan struct{}
	answers := space[:0]
	s := rs.shards.Of(of.Key)
	s.mu.Lock()
	for r := range s.quotas[of].asked {
		if r.decided == nil {
			r.decided = make(chan struct{})
		}
		if answers = append(answers, r.decided); len(answers) == maxAwaited {
			break
		}
	}
	s.mu.Unlock()
	for _, answer := range answers {
		select {
		case <-answer:
		case <-ctx.Done():
			return true
		}
	}
	return false
}
