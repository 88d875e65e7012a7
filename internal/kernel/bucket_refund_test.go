package kernel

import (
	"math/rand/v2"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// sec is a second in microseconds.
const sec = int64(1_000_000)

// epoch is an instant that is a boundary of every window of a day or less.
const epoch = 1_790_000_000 * sec / (86_400 * sec) * (86_400 * sec)

// This file plays random schedules of reservations, takes, charges and refunds on the kernel of the
// buckets. After each refund the debt must be at least that of a bucket whose refunded requests took
// less at first.

// bucketSchedule is one schedule on one state, which policies of different limits use.
type bucketSchedule struct {
	play     *assert.Play // nil: none is told
	random   *rand.Rand
	policies []Params // they differ in limit and capacity alone
	slowest  Params   // of a table with all of them
	window   int64
	sweeps   bool // the state is dropped as soon as it may be; else the clock runs backwards at times
	now      int64
	state    State
	taken    []bucketOp
	open     []bucketReservation
	refunded int64 // in 1/window units
}

// bucketOp is what the other bucket does: it adds units at an instant, by a policy.
type bucketOp struct {
	at, units int64
	policy    *Params
}

// bucketReservation is a reservation that may be refunded.
type bucketReservation struct {
	op      int // in taken
	units   int64
	receipt Receipt
}

// newBucketSchedule makes a schedule of policies of several sizes: few units a tick and many, counted
// in microseconds and in milliseconds.
func newBucketSchedule(random *rand.Rand) *bucketSchedule {
	s := &bucketSchedule{random: random, sweeps: random.IntN(2) == 0}
	sizes := []struct{ limit, capacity, window, tick int64 }{
		{1 + random.Int64N(4), 2 + random.Int64N(9), 3, 1},
		{1 + random.Int64N(4), 2 + random.Int64N(9), 10, 1},
		{1 + random.Int64N(50), 2 + random.Int64N(20), 5, 1000},
		{1000, 200, 1_000_000, 1},
		{1_000_000, 1_000_000, 1_000_000, 1},
		{100_000, 100_000, 86_400_000, 1000},
		{1, 5, 10_000_000, 1},
	}
	size := sizes[random.IntN(len(sizes))]
	s.window, s.now = size.window, epoch/size.tick+random.Int64N(size.window)
	for range 1 + random.IntN(2) {
		p := Params{Limit: size.limit, Capacity: size.capacity, Window: size.window, Tick: size.tick, MaxDelay: NoQueue}
		p.Full, p.MaxDebt = CeilDiv(p.Capacity*p.Window, p.Limit), MostDebt(p.Limit, p.Tick)
		s.policies = append(s.policies, p)
		size.limit, size.capacity = max(1, size.limit/2), max(2, size.capacity*3/4)
	}
	s.slowest = s.policies[len(s.policies)-1]
	s.slowest.Full = max(s.slowest.Full, s.policies[0].Full)
	return s
}

// step does one thing, and returns the policy it did it by.
func (s *bucketSchedule) step() *Params {
	p := &s.policies[s.random.IntN(len(s.policies))]
	s.now += []int64{0, 0, 1, s.random.Int64N(s.window), s.random.Int64N(p.Full/2 + 1), s.random.Int64N(2*p.Full + 1)}[s.random.IntN(6)]
	if !s.sweeps && s.random.IntN(20) == 0 {
		s.now -= s.random.Int64N(p.Full/4 + 1)
	}
	if s.sweeps && new(bucket).Expires(s.state, s.now, &s.slowest) <= s.now {
		s.state = State{}
	}
	switch kind := s.random.IntN(20); {
	case kind < 12:
		s.take(p, kind < 8)
	case kind < 14:
		s.charge(p)
	default:
		s.refund(p)
	}
	return p
}

func (s *bucketSchedule) take(p *Params, refundable bool) {
	k, units := new(bucket), 1+s.random.Int64N(p.Capacity)
	if s.random.IntN(2) == 0 {
		units = 1 + s.random.Int64N(max(1, p.Capacity/5))
	}
	s.play.Step("at %d a take of %d, refundable: %t, by %+v", s.now, units, refundable, *p)
	v := k.Decide(s.state, s.now, p, units, 0)
	if v.Wait != 0 {
		return
	}
	s.state = k.Take(s.state, p, v, refundable)
	if refundable {
		s.open = append(s.open, bucketReservation{len(s.taken), units, k.Receipt(v)})
	}
	s.taken = append(s.taken, bucketOp{s.now, units, p})
}

func (s *bucketSchedule) charge(p *Params) {
	units := 1 + s.random.Int64N(2*p.Capacity)
	if s.random.IntN(50) == 0 {
		units = []int64{MaxCharge, MaxCharge - 1, p.MaxDebt / p.Window, p.MaxDebt/p.Window + 1}[s.random.IntN(4)]
	}
	s.play.Step("at %d a charge of %d by %+v", s.now, units, *p)
	s.state = new(bucket).Charge(s.state, s.now, p, units)
	s.taken = append(s.taken, bucketOp{s.now, units, p})
}

// refund returns a reservation, whole or in part.
func (s *bucketSchedule) refund(p *Params) {
	if len(s.open) == 0 {
		return
	}
	i := s.random.IntN(len(s.open))
	r := s.open[i]
	s.open = append(s.open[:i], s.open[i+1:]...)
	units := r.units
	if s.random.IntN(3) == 0 {
		units = 1 + s.random.Int64N(r.units)
	}
	s.play.Step("at %d a refund of %d of %d by %+v", s.now, units, r.units, *p)
	before := s.debt(p)
	after := new(bucket).Refund(s.state, s.now, p, r.units, units, r.receipt)
	if levelOf(after.Numbers).at != levelOf(s.state.Numbers).at {
		s.taken = append(s.taken, bucketOp{s.now, 0, p}) // so that the clock stands where it stands here
	}
	s.state = after
	s.taken[r.op].units -= units
	s.refunded += before - s.debt(p)
}

// debt returns the debt as it stands now.
func (s *bucketSchedule) debt(p *Params) int64 {
	debt := new(bucket).drained(s.state, s.now, p).debt
	return debt
}

// lesserDebt returns the debt now of the bucket whose requests took less at first.
func (s *bucketSchedule) lesserDebt(p *Params) (debt int64) {
	at := int64(0)
	drain := func(now int64, p *Params) {
		if at-now > p.Full {
			debt, at = 0, now // the clock was set back too far
		}
		debt = min(debt, p.MaxDebt)
		if now > at {
			debt, at = max(0, debt-min(now-at, p.MaxDebt/p.Limit+1)*p.Limit), now
		}
	}
	for _, op := range s.taken {
		drain(op.at, op.policy)
		debt += min(op.units, (op.policy.MaxDebt-debt)/s.window+1) * s.window
		debt = min(debt, op.policy.MaxDebt)
	}
	drain(s.now, p)
	return debt
}

func TestBucket_Refund_overlapping(t *testing.T) {
	t.Parallel()
	const steps = 30
	schedules := assert.Rounds(20_000, 1_000_000)
	random, play := rand.New(rand.NewPCG(7, 15)), assert.NewPlay(t, 7)
	refunds := 0
	for range schedules {
		s := newBucketSchedule(random)
		s.play = play
		for range steps {
			open := len(s.open)
			p := s.step()
			if len(s.open) >= open { // no refund
				continue
			}
			if debt, least := s.debt(p), s.lesserDebt(p); debt < least {
				t.Fatalf("%+v: a debt of %d, and of %d had the requests taken less at first; %+v", *p, debt, least, s.taken)
			}
		}
		if s.refunded > 0 {
			refunds++
		}
	}
	assert.ErrorIf(t, refunds < schedules/2, "only %d of %d schedules refunded anything", refunds, schedules)
}
