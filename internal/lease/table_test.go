package lease_test

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/kernel"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/lease"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest"
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

	open    lease.Question // the last one
	key     *lease.BusyKey // of the last request
	spent   []lease.HeldUnits
	closing bool // requests come while units are given back, whatever their clock was
}

// deskTimer is the timer of the desk's one key.
type deskTimer struct {
	desk *leaseDesk
	f    func()
}

func (d deskTimer) Reset(time.Duration) bool { d.desk.timer = d.f; return true }
func (d deskTimer) Stop() bool               { d.desk.timer = nil; return true }

// deskLease is how long the leases of a desk last. A node uses 70 ms of that.
const deskLease = 80 * time.Millisecond

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
		if now := d.clock; d.closing {
			d.clock = d.open.Sent
			d.request(false)
			d.clock = now
		}
	}
	d.table.Ended = func(_ string, fate limiter.LeaseFate, units int64) { d.fates[fate] += units }
	for range lease.BusyAfter {
		d.request(false)
		d.clock = d.clock.Add(time.Millisecond)
	}
	return d
}

// request makes a request, which a lease decides or not.
func (d *leaseDesk) request(want bool) {
	d.t.Helper()
	k, spent := d.table.Spend(&d.check, d.clock)
	assert.ErrorIf(d.t, (spent.Number != 0) != want, "a request was decided by a lease: %v; want %v", !want, want)
	if d.key = k; want {
		d.spent = append(d.spent, spent)
	}
}

// ask sends the question of a request that no lease decides.
func (d *leaseDesk) ask() lease.Question {
	d.t.Helper()
	d.request(false)
	d.open = d.table.Question(d.key)
	d.open.Sent = d.clock
	assert.FatalIf(d.t, d.open.Wish.Units == 0, "nothing is asked for")
	return d.open
}

// play plays steps: "spend" or "miss" a request, of this "weight" and "reserve"; "ask", which gives a "rest" back, or have
// "another" question under way for so many units; "answer" it by so many, or learn that it has "failed" or was "unsent";
// let so many microseconds "pass", or go to so many after the question by "at"; have the "timer" end. "end" and "reset" the
// key, "shut" the table, "put" units back that the request of this number from 0 has spent. From "closing" on requests
// come while units are given back. "back" compares the units that were given back so far, "spent" and "lapsed" the fates of units,
// "held" what is left; "lost" says that some are, "whole" that none are, "idle" that no key is busy.
func (d *leaseDesk) play(steps string) {
	words := strings.Fields(steps)
	number := func() int64 {
		words = words[1:]
		return assert.NoError(strconv.ParseInt(words[0], 10, 64))(d.t)
	}
	want := func(step string, got, want any) {
		d.t.Helper()
		assert.FatalIf(d.t, fmt.Sprint(got) != fmt.Sprint(want), "%s: %v, want %v; before %q", step, got, want, words[1:])
	}
	lost := func() int64 { return d.fates[limiter.LeaseReturned] + d.fates[limiter.LeaseLapsed] }
	micros := func() time.Duration { return time.Duration(number()) * time.Microsecond }
	for ; len(words) > 0; words = words[1:] {
		switch do := words[0]; do {
		case "spend", "miss":
			d.request(do == "spend")
		case "weight":
			d.check.Weight = number()
		case "reserve":
			d.check.Reserve = number()
		case "ask":
			d.ask()
		case "another":
			d.open = lease.Question{Key: d.key, Wish: kernel.Wish{Units: number()}, Sent: d.clock}
		case "rest":
			want(do, d.open.Rest.Left, number())
		case "answer":
			d.table.Answered(d.open, 5000, time.Minute, kernel.Lease{Units: number(), Lasts: deskLease.Microseconds()})
		case "failed", "unsent":
			d.table.Failed(d.open, do == "failed")
		case "pass":
			d.clock = d.clock.Add(micros())
		case "at":
			d.clock = d.open.Sent.Add(micros())
		case "timer":
			d.timer()
		case "end":
			d.table.End("k", func(p *limiter.Policy) bool { return p == d.check.Policy }, lease.KeyEnded)
		case "reset":
			d.table.End("k", lease.Named("desk"), lease.KeyReset)
		case "shut":
			d.table.Close()
		case "put":
			d.table.PutBack(d.key, d.spent[number()], &d.check)
		case "closing":
			d.closing = true
		case "back":
			words = words[1:]
			back := ""
			for _, l := range d.back {
				back += fmt.Sprint(l.Left, ";")
			}
			want(do, cmp.Or(back, "-"), words[0])
		case "spent", "lapsed":
			want(do, d.fates[map[string]limiter.LeaseFate{"spent": limiter.LeaseSpent, "lapsed": limiter.LeaseLapsed}[do]], number())
		case "held":
			units, _ := d.table.Held("desk", "k")
			want(do, units, number())
		case "lost", "whole":
			want(do, lost() > 0, do == "lost")
		case "idle":
			want(do, d.key == nil, true)
		default:
			d.t.Fatalf("no such step: %q", words)
		}
	}
}

// TestLeaseTable plays what becomes of leases. One lasts from before its question, an eighth shorter than on Redis: it is
// closed before what is left is given back.
func TestLeaseTable(t *testing.T) {
	for name, steps := range map[string]string{
		"its end":       "ask pass 30000 answer 100 spend at 69999 spend at 70000 miss back - closing timer back 98; spent 2 timer back 98;",
		"a late answer": "ask pass 70000 answer 100 back 100; at 0 miss",
		// A lease whose rest a question gives back stays closed unless the question has certainly not arrived.
		"answered":        "ask answer 10 weight 11 ask rest 10 weight 1 miss answer 0 miss lost",
		"lost":            "ask answer 10 weight 11 ask rest 10 weight 1 miss failed miss lost",
		"not sent":        "ask answer 10 weight 11 ask rest 10 weight 1 miss unsent spend whole",
		"not sent, ended": "ask answer 10 weight 11 ask rest 10 weight 1 miss pass 70000 unsent miss lost",
		// What the key's leases hold is given back once, also by answers under way; nothing where its state is gone.
		"a key ends":      "ask answer 100 spend another 7 closing end miss end answer 7 miss back 99;7;",
		"a key is reset":  "ask answer 100 spend another 7 closing reset miss reset answer 7 miss back - lapsed 106",
		"the table ends":  "ask answer 100 spend another 7 shut answer 7 back 99;7; " + strings.Repeat("miss idle pass 1000 ", 2*lease.BusyAfter),
		"left for others": "ask answer 100 reserve 4999 spend miss reserve 4900 spend",
		// Units of a denied request return to their lease, or to Redis where that is closed.
		"put back": "ask answer 2 spend spend another 10 answer 10 spend put 0 back 1; another 0 answer 0 spent 2 put 2 back 1; held 10 reset put 1 back 1; lapsed 11",
	} {
		t.Run(name, func(t *testing.T) { newLeaseDesk(t).play(steps) })
	}
}

// TestLeaseTable_neverPasses asks in vain for more than there can be, which changes no lease.
func TestLeaseTable_neverPasses(t *testing.T) {
	d, want := newLeaseDesk(t), newLeaseDesk(t).ask().Wish
	d.play("weight 1152921504606846976 " + strings.Repeat("miss ", 100) + "weight 1")
	got := d.ask().Wish
	assert.ErrorIf(t, got != want, "asked for %+v; want %+v", got, want)
}
