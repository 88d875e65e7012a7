package lease_test

import (
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/kernel"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/lease"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/storetest"
)

// leaseDesk is a table of leases whose clock, timers and messages the test moves.
type leaseDesk struct {
	t     *testing.T
	table *lease.Table
	check limiter.Check
	clock clock.Moment
	timer func() // of the key; nil where none is set
	asked []lease.Question
	back  []lease.HeldUnits // given back
	fates map[limiter.LeaseFate]int64

	whenBack func() // runs while units are given back; may be nil
}

// deskTimer is the timer of the desk's one key.
type deskTimer struct {
	desk *leaseDesk
	f    func()
}

func (d deskTimer) Reset(time.Duration) bool { d.desk.timer = d.f; return true }
func (d deskTimer) Stop() bool               { d.desk.timer = nil; return true }

// deskLease is how long the leases of a desk last, and deskUntil how much of that a node uses.
const (
	deskLease = 80 * time.Millisecond
	deskUntil = 70 * time.Millisecond
)

// newLeaseDesk returns a table with a busy key.
func newLeaseDesk(t *testing.T) *leaseDesk {
	t.Helper()
	p := storetest.NewPolicy(t, limiter.Settings{Name: "desk", Algorithm: limiter.FixedWindow, Limit: 10_000, Window: time.Minute, Lease: limiter.MaxLease})
	d := &leaseDesk{t: t, table: lease.NewTable(), check: limiter.Check{Policy: p, Key: limiter.EncodeKey("k")}, clock: clock.Moment(time.Hour), fates: map[limiter.LeaseFate]int64{}}
	d.table.Now = func() clock.Moment { return d.clock }
	d.table.After = func(_ time.Duration, f func()) clock.Timer {
		d.timer = f
		return deskTimer{d, f}
	}
	d.table.Ask = func(q lease.Question) { d.asked = append(d.asked, q) }
	d.table.GiveBack = func(_ *lease.BusyKey, l lease.HeldUnits) {
		d.back = append(d.back, l)
		if d.whenBack != nil {
			d.whenBack()
		}
	}
	d.table.Ended = func(_ string, fate limiter.LeaseFate, units int64) { d.fates[fate] += units }
	for range lease.BusyAfter {
		d.spend(false)
		d.pass(time.Millisecond)
	}
	return d
}

// pass lets time pass.
func (d *leaseDesk) pass(by time.Duration) { d.clock = d.clock.Add(by) }

// spend makes a request, which a lease decides or not.
func (d *leaseDesk) spend(want bool) (*lease.BusyKey, lease.HeldUnits) {
	d.t.Helper()
	k, spent := d.table.Spend(&d.check, d.clock)
	redistest.ErrorIf(d.t, (spent.Number != 0) != want, "a request was decided by a lease: %v; want %v", !want, want)
	return k, spent
}

// ask sends the question of a request that no lease decides.
func (d *leaseDesk) ask() lease.Question {
	d.t.Helper()
	k, _ := d.spend(false)
	q := d.table.Question(k)
	q.Sent = d.clock
	redistest.FatalIf(d.t, q.Wish.Units == 0, "nothing is asked for")
	return q
}

// answer answers it with so many units.
func (d *leaseDesk) answer(q lease.Question, units int64) {
	d.table.Answered(q, 5000, time.Minute, kernel.Lease{Units: units, Lasts: deskLease.Microseconds()})
}

// givenBack checks how many units were given back so far.
func (d *leaseDesk) givenBack(units ...int64) {
	d.t.Helper()
	redistest.FatalIf(d.t, len(d.back) != len(units), "given back %+v; want %v", d.back, units)
	for i, want := range units {
		redistest.ErrorIf(d.t, d.back[i].Left != want, "given back %+v; want %v", d.back, units)
	}
}

// TestLeaseTable_ends counts a lease from before its question, an eighth shorter than Redis does, and closes
// it before what is left is given back.
func TestLeaseTable_ends(t *testing.T) {
	d := newLeaseDesk(t)
	q := d.ask()
	d.pass(30 * time.Millisecond)
	d.answer(q, 100)
	d.spend(true)
	d.clock = q.Sent.Add(deskUntil - 1)
	d.spend(true)
	d.pass(1)
	d.spend(false)
	d.givenBack()
	d.whenBack = func() {
		d.clock = q.Sent // whatever the clock of a request was
		d.spend(false)
	}
	d.timer()
	d.givenBack(98)
	redistest.ErrorIf(t, d.fates[limiter.LeaseSpent] != 2, "%v; want 2 units spent", d.fates)
	d.timer()
	d.givenBack(98)
}

// TestLeaseTable_late gives units back whose answer comes when the lease has ended.
func TestLeaseTable_late(t *testing.T) {
	d := newLeaseDesk(t)
	q := d.ask()
	d.pass(deskUntil)
	d.answer(q, 100)
	d.givenBack(100)
	d.clock = q.Sent
	d.spend(false)
}

// TestLeaseTable_question closes a lease whose rest it gives back. It stays closed unless the question has
// certainly not arrived.
func TestLeaseTable_question(t *testing.T) {
	for _, test := range []struct {
		name   string
		failed bool
		arrive bool
		late   bool // after the end of the lease
		held   bool
	}{
		{"answered", false, true, false, false},
		{"lost on either way", true, true, false, false},
		{"not sent", true, false, false, true},
		{"not sent, and the lease has ended", true, false, true, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := newLeaseDesk(t)
			d.answer(d.ask(), 10)
			one := d.check
			d.check.Weight = 11 // more than there is
			q := d.ask()
			redistest.FatalIf(t, q.Rest.Left != 10, "the question gives %d back; want 10", q.Rest.Left)
			d.check = one
			d.spend(false)
			if test.late {
				d.pass(deskUntil)
			}
			if test.failed {
				d.table.Failed(q, test.arrive)
			} else {
				d.answer(q, 0)
			}
			d.spend(test.held)
			redistest.ErrorIf(t, test.held == (d.fates[limiter.LeaseReturned]+d.fates[limiter.LeaseLapsed] > 0),
				"fates %v", d.fates)
		})
	}
}

// TestLeaseTable_end gives back what the key's leases hold, once; nothing where its state is gone. The same
// holds for answers that are under way.
func TestLeaseTable_end(t *testing.T) {
	for why, want := range map[lease.BusyState][]int64{lease.KeyEnded: {99, 7}, lease.KeyReset: {}} {
		d := newLeaseDesk(t)
		d.answer(d.ask(), 100)
		k, _ := d.spend(true)
		other := lease.Question{Key: k, Wish: kernel.Wish{Units: 7}, Sent: d.clock}
		end := func() { d.table.End("k", func(p *limiter.Policy) bool { return p == d.check.Policy }, why) }
		d.whenBack = func() { d.spend(false) }
		end()
		d.spend(false)
		end()
		d.answer(other, 7)
		d.spend(false)
		d.givenBack(want...)
		redistest.ErrorIf(t, why == lease.KeyReset && d.fates[limiter.LeaseLapsed] != 106,
			"fates %v; want 106 units lapsed", d.fates)
	}
}

// TestLeaseTable_close gives everything back, also what is answered later, and leases nothing more.
func TestLeaseTable_close(t *testing.T) {
	d := newLeaseDesk(t)
	d.answer(d.ask(), 100)
	k, _ := d.spend(true)
	d.table.Close()
	d.answer(lease.Question{Key: k, Wish: kernel.Wish{Units: 7}, Sent: d.clock}, 7)
	d.givenBack(99, 7)
	for range 2 * lease.BusyAfter {
		k, _ := d.spend(false)
		redistest.FatalIf(t, k != nil, "a key is busy")
		d.pass(time.Millisecond)
	}
}

// TestLeaseTable_reserve spends only what leaves enough to others.
func TestLeaseTable_reserve(t *testing.T) {
	d := newLeaseDesk(t)
	d.answer(d.ask(), 100) // of 5000
	d.check.Reserve = 4999
	d.spend(true)
	d.spend(false)
	d.check.Reserve = 4900
	d.spend(true)
}

// TestLeaseTable_neverPasses asks in vain for more than there can be, which changes no lease.
func TestLeaseTable_neverPasses(t *testing.T) {
	d, want := newLeaseDesk(t), newLeaseDesk(t).ask().Wish
	d.check.Weight = 1 << 60
	for range 100 {
		d.spend(false)
	}
	d.check.Weight = 1
	got := d.ask().Wish
	redistest.ErrorIf(t, got != want, "asked for %+v; want %+v", got, want)
}

// TestLeaseTable_putBack returns units of a denied request to their lease, or to Redis where that is closed.
func TestLeaseTable_putBack(t *testing.T) {
	d := newLeaseDesk(t)
	d.answer(d.ask(), 2)
	k, first := d.spend(true)
	_, second := d.spend(true) // the lease is used up
	d.answer(lease.Question{Key: k, Wish: kernel.Wish{Units: 10}, Sent: d.clock}, 10)
	_, third := d.spend(true)
	d.table.PutBack(k, first, &d.check)
	d.givenBack(1)
	d.table.Answered(lease.Question{Key: k, Sent: d.clock}, 5000, time.Minute, kernel.Lease{})
	redistest.ErrorIf(t, d.fates[limiter.LeaseSpent] != 2, "fates %v; want 2 units spent", d.fates)
	d.table.PutBack(k, third, &d.check)
	d.givenBack(1)
	units, _ := d.table.Held("desk", "k")
	redistest.ErrorIf(t, units != 10, "%d units are held; want 10", units)
	d.table.End("k", lease.Named("desk"), lease.KeyReset)
	d.table.PutBack(k, second, &d.check)
	d.givenBack(1)
	redistest.ErrorIf(t, d.fates[limiter.LeaseLapsed] != 11, "fates %v; want 11 units lapsed", d.fates)
}
