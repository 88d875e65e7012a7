package storetest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/kernel"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// This file plays the same traces through every store and holds the answers equal to the last
// microsecond.

// Agree is the conformance suite: two stores answer the same to any trace, of so many.
func Agree(t *testing.T, open Open, traces uint64) {
	const steps = 500
	for seed := range assert.Seeds(traces, traces) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			stores := open(t)
			tr := newTrace(t, seed)
			for range steps {
				tr.Step()
				switch tr.Random.IntN(9) {
				case 0:
					reserveBoth(t, tr, stores)
				case 1:
					refundBoth(tr, stores)
				case 2:
					chargeBoth(tr, stores)
				case 3:
					repayBoth(t, tr, stores)
				case 4:
					confirmBoth(tr, stores)
				case 5:
					settleCostBoth(tr, stores)
				default:
					playBoth(t, tr, stores)
				}
			}
		})
	}
}

// playBoth sends one request to all stores.
func playBoth(t *testing.T, tr *Trace, stores []*Candidate) {
	t.Helper()
	request := tr.request()
	tr.look(request)
	tr.note("request", request)
	answers := make([][]limiter.Check, len(stores))
	for i, s := range stores {
		s.SetClock(tr.Now)
		answers[i] = slices.Clone(request)
		s.Request(t, answers[i]...)
	}
	compare(t, tr, stores, answers)
}

// chargeBoth charges something in all stores, whether there is room or not. Charges that saturate
// the state are rare, because nothing passes for long afterwards.
func chargeBoth(tr *Trace, stores []*Candidate) {
	request := tr.request()
	for i := range request {
		c := &request[i]
		c.Weight, c.Peek = max(1, c.Weight), false
		if tr.Random.IntN(150) == 0 {
			c.Weight = []int64{c.Policy.Capacity() * 5, kernel.LogUnits - 2, limiter.MaxCharge / c.Policy.Params.Window, limiter.MaxCharge}[tr.Random.IntN(4)]
		}
	}
	tr.note("charge", request)
	for _, s := range stores {
		s.SetClock(tr.Now)
		s.Charge(slices.Clone(request))
	}
}

// repayBoth adds a debt in all stores: of a window or an instant that is current, decayed or to come.
func repayBoth(t *testing.T, tr *Trace, stores []*Candidate) {
	t.Helper()
	c := &tr.request()[0]
	p := &c.Policy.Params
	now := tr.Now / p.Tick
	d := kernel.Debt{Amount: 1 + tr.Random.Int64N(2*p.Capacity)}
	switch {
	case c.Policy.IsBucket():
		d.Amount = 1 + tr.Random.Int64N(2*p.Capacity*p.Window)
	case c.Policy.Algorithm.Logs:
		d.At = now - []int64{0, 1, p.Window / 2, p.Window - 1, p.Window, p.Window + 1, -1}[tr.Random.IntN(7)]
	case p.Periods != nil:
		d.At = p.Periods.Around(now)[tr.Random.IntN(4)] + tr.Random.Int64N(5*3_600_000_000)
	default:
		d.At = now/p.Window + tr.Random.Int64N(4) - 2
	}
	tr.note(fmt.Sprintf("owed %+v", d), []limiter.Check{*c})
	var units [2]int64
	for i, s := range stores {
		s.SetClock(tr.Now)
		units[i] = s.Repay(t, c, d)
	}
	if units[0] != units[1] {
		t.Fatalf("at epoch%+d, a debt %+v of %v: %v units settled", tr.Now-Epoch, d, c.Policy.Settings, units)
	}
	playBoth(t, tr, stores)
}

// compare holds the answers of all stores equal.
func compare(t *testing.T, tr *Trace, stores []*Candidate, answers [][]limiter.Check) {
	t.Helper()
	for i := range answers[0] {
		a, b := answers[0][i], answers[1][i]
		if a.Result != b.Result || (!a.Result.Banned && a.State.Withheld != b.State.Withheld) {
			differ := assert.Differ(a.Result, b.Result)
			if a.State.Withheld != b.State.Withheld {
				differ += fmt.Sprintf("; withheld is %d, want %d", a.State.Withheld, b.State.Withheld)
			}
			t.Fatalf("at epoch%+d, check %d of %d, of %v, weight %d and %d left (look %t, credit %d) of key %s: what %s answers is to be as of %s: %s",
				tr.Now-Epoch, i, len(answers[0]), a.Policy.Settings, a.Weight, a.Reserve, a.Look, a.Credit, a.Key, stores[0].Name, stores[1].Name, differ)
		}
		checkInvariants(t, &a)
	}
	tr.Learn(answers[0])
}

func checkInvariants(t *testing.T, c *limiter.Check) {
	t.Helper()
	r := c.Result
	if r.Remaining < 0 || r.Remaining > c.Policy.Capacity() || r.ResetAfter < 0 || r.Delay < 0 ||
		limiter.NeverPasses(c) != (r.RetryAfter == limiter.Never) || r.Remaining > c.Policy.Capacity()-limiter.Reserve(c) ||
		(r.ForOthers && (c.Reserve == 0 || r.Passes() || r.Banned)) || c.State.Withheld < 0 || (c.State.Withheld > limiter.Reserve(c) && c.Policy.Params.MaxDelay == kernel.NoQueue) || (c.Peek && r.RetryAfter != 0) ||
		r.Banned != (r.BanLeft > 0) || (r.Banned && (c.Policy.Ban == nil || r.Remaining > 0 || r.Delay > 0)) || (r.BanBegins && !r.Banned) {
		t.Fatalf("weight %d, %d left, of %v: impossible result %+v", c.Weight, c.Reserve, c.Policy.Settings, r)
	}
}
