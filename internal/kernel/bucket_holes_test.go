package kernel

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// This file holds the refunds of the buckets' kernel equal to those of a list of all takes, from which
// nothing is dropped or joined.

// takeList is a bucket of one policy that keeps every take.
type takeList struct {
	debt, at int64
	units    []int64 // of each take, less the refunded ones
}

func (l *takeList) drain(now int64, p *Params) {
	l.debt, l.at = drainedDebt(l.debt, now-l.at, p.Limit), now
}

func (l *takeList) add(units, debt int64) {
	l.units = append(l.units, units)
	l.debt += debt
}

// refund refunds units of a take, unless a full bucket has drained since.
func (l *takeList) refund(take int, units int64, p *Params) {
	l.units[take] -= units
	since := int64(0)
	for _, later := range l.units[take+1:] {
		since += later
	}
	l.debt -= max(0, min(units*p.Window, l.debt-since*p.Window))
}

// bucketPair plays the same on a kernel's state and a list.
type bucketPair struct {
	play  *assert.Play // nil: none is told
	p     Params
	now   int64
	state State
	list  takeList
	open  []bucketReservation
	since []int64 // instants of the open reservations
	most  int     // the most holes that there were
	sums  bool    // there was a sum
}

func newBucketPair(limit, capacity, window int64) *bucketPair {
	p := Params{Limit: limit, Capacity: capacity, Window: window, Tick: 1, MaxDelay: NoQueue}
	p.Full, p.MaxDebt = CeilDiv(p.Capacity*p.Window, p.Limit), MostDebt(p.Limit, p.Tick)
	return &bucketPair{p: p, now: epoch, list: takeList{at: epoch}}
}

func (b *bucketPair) pass(ticks int64) {
	b.now += ticks
	b.list.drain(b.now, &b.p)
	if new(bucket).Expires(b.state, b.now, &b.p) <= b.now {
		b.state = State{}
	}
}

func (b *bucketPair) take(units int64, refundable bool) {
	v := new(bucket).Decide(b.state, b.now, &b.p, units, 0)
	b.play.Step("at %d take %d, refundable %t, to wait %d", b.now, units, refundable, v.Wait)
	if v.Wait != 0 {
		return
	}
	b.state = new(bucket).Take(b.state, &b.p, v, refundable)
	if refundable {
		b.open, b.since = append(b.open, bucketReservation{len(b.list.units), units, new(bucket).Receipt(v)}), append(b.since, b.now)
	}
	b.list.add(units, units*b.p.Window)
}

func (b *bucketPair) charge(units int64) {
	b.play.Step("at %d charge %d", b.now, units)
	b.state = new(bucket).Charge(b.state, b.now, &b.p, units)
	b.list.add(units, units*b.p.Window)
}

func (b *bucketPair) repay(amount int64) {
	before := b.debt()
	b.play.Step("at %d repay a debt of %d", b.now, amount)
	b.state, _ = new(bucket).Repay(b.state, b.now, &b.p, Debt{At: 0, Amount: amount})
	if added := b.debt() - before; added > 0 {
		b.list.add(CeilDiv(added, b.p.Window), added)
	}
}

// refund refunds units of the open reservation i.
func (b *bucketPair) refund(i int, units int64) {
	r := b.open[i]
	b.play.Step("at %d refund %d of %d units taken at %d", b.now, units, r.units, b.since[i])
	b.state = new(bucket).Refund(b.state, b.now, &b.p, units, units, r.receipt)
	if b.now-b.since[i] < b.p.Full {
		b.list.refund(r.op, units, &b.p)
	}
	b.open, b.since = slices.Delete(b.open, i, i+1), slices.Delete(b.since, i, i+1)
	if b.state.Holes != nil {
		b.most = max(b.most, len(*b.state.Holes))
		b.sums = b.sums || slices.ContainsFunc(*b.state.Holes, func(h hole) bool { return h.Sum })
	}
}

func (b *bucketPair) debt() int64 { return new(bucket).drained(b.state, b.now, &b.p).debt }

// TestBucket_Refund_list_of_takes plays random schedules. A state refunds as much as the list until
// holes become a sum, and then never more.
func TestBucket_Refund_list_of_takes(t *testing.T) {
	t.Parallel()
	schedules := assert.Rounds(8_000, 200_000)
	random, play := rand.New(rand.NewPCG(11, 4)), assert.NewPlay(t, 11)
	several, sums, less := 0, 0, 0
	for range schedules {
		limit := 1 + random.Int64N(6)
		b := newBucketPair(limit, 5+random.Int64N(120), 1+random.Int64N(20))
		b.play = play
		reserves, most := 3+random.IntN(10), 1+random.Int64N(4)
		for range 40 + random.IntN(160) {
			if random.IntN(3) == 0 {
				b.pass([]int64{random.Int64N(2*b.p.Full + 1), random.Int64N(b.p.Full/4 + 1), random.Int64N(b.p.Window), 1}[min(random.IntN(60), 3)])
			}
			switch kind := random.IntN(20); {
			case kind < reserves:
				b.take(1+random.Int64N(most), true)
			case kind < 13:
				b.take(1+random.Int64N(most), false)
			case kind < 14 && random.IntN(4) == 0:
				b.charge(1 + random.Int64N(5))
			case kind < 15 && random.IntN(4) == 0:
				b.repay(1 + random.Int64N(3*b.p.Window))
			case len(b.open) > 0:
				i := random.IntN(len(b.open))
				b.refund(i, 1+random.Int64N(b.open[i].units))
			}
			if debt := b.debt(); debt < b.list.debt || (!b.sums && debt != b.list.debt) {
				t.Fatalf("%+v: a debt of %d, the list says %d; %+v", b.p, debt, b.list.debt, b.state.Holes)
			}
		}
		if b.most > 3 {
			several++
		}
		if b.sums {
			sums++
		}
		if b.debt() > b.list.debt {
			less++
		}
	}
	t.Logf("of %d schedules %d have more than three holes at once, %d a sum, %d refund less by it", schedules, several, sums, less)
	assert.ErrorIf(t, several < schedules/4 || sums < schedules/100,
		"only %d of %d schedules have more than three holes at once, %d a sum", several, schedules, sums)
}

// TestBucket_Refund_many_at_one_instant has more holes than a state keeps. Some units stay taken.
func TestBucket_Refund_many_at_one_instant(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 5))
	for _, bound := range []struct {
		takes int
		most  float64 // of the units
	}{{64, 0.02}, {100, 0.05}, {200, 0.07}, {1000, 0.08}} {
		const rounds = 50
		takes := bound.takes
		kept := int64(0)
		for range rounds {
			b := newBucketPair(1, 1000, sec)
			for range takes {
				b.take(1, true)
			}
			for len(b.open) > 0 {
				b.refund(random.IntN(len(b.open)), 1)
			}
			kept += b.debt() / sec
		}
		mean := float64(kept) / rounds / float64(takes)
		t.Logf("%d takes: %.1f %% are not returned", takes, 100*mean)
		assert.ErrorIf(t, mean > bound.most, "%d takes: %.1f %% of the units are not returned", takes, 100*mean)
	}
}

// TestBucket_Refund_twice uses a receipt twice while the units are in a hole.
func TestBucket_Refund_twice(t *testing.T) {
	b := newBucketPair(1, 10, sec)
	for range 5 {
		b.take(1, true)
	}
	open := slices.Clone(b.open)
	for _, i := range []int{2, 1, 3} {
		for range 2 {
			b.state = new(bucket).Refund(b.state, b.now, &b.p, 1, 1, open[i].receipt)
		}
	}
	assert.Equal(t, b.debt(), 2*sec, "the debt with two of five units reserved")
}
