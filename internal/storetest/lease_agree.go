package storetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/kernel"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// AgreeOnLeases plays takes, leases, what is given back of them, and refunds through both twins of
// every kernel, in so many traces.
func AgreeOnLeases(t *testing.T, open Open, traces uint64) {
	granted := map[string]int{}
	for seed := range assert.Seeds(traces, traces) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			stores := open(t)
			tr := newLeaseTrace(t, seed)
			for range 600 {
				tr.Step()
				for _, s := range stores {
					s.SetClock(tr.Now)
				}
				switch tr.Random.IntN(8) {
				case 0:
					reserveBoth(t, tr, stores)
				case 1:
					refundBoth(tr, stores)
				case 2:
					chargeBoth(tr, stores)
				case 3, 4:
					playBoth(t, tr, stores)
				default:
					if p := leaseBoth(t, tr, stores); p != nil {
						granted[p.Settings.Algorithm]++
					}
				}
			}
		})
	}
	for _, algorithm := range limiter.Algorithms() {
		if assert.AllSeeds() && granted[algorithm] < 50 {
			t.Errorf("%s: %d leases; the traces show nothing", algorithm, granted[algorithm])
		}
	}
}

// heldLease is a lease that may be given back, with the receipts of each store.
type heldLease struct {
	check  limiter.Check
	leases []kernel.Lease
}

// newLeaseTrace chooses policies of one algorithm with room for leases.
func newLeaseTrace(t *testing.T, seed uint64) *Trace {
	t.Helper()
	tr := &Trace{Random: rand.New(rand.NewPCG(seed, 7)), Now: Epoch, Play: assert.NewPlay(t, seed)}
	algorithm := limiter.Algorithms()[seed%uint64(len(limiter.Algorithms()))]
	for i, s := range []limiter.Settings{
		{Limit: 40, Window: 10 * time.Second}, {Limit: 1000, Window: time.Second}, {Limit: 200, Window: 3 * time.Millisecond},
		{Limit: 4_000_000, Window: 24 * time.Hour}, {Limit: 25, Window: time.Minute, Burst: 70},
	} {
		if s.Burst > 0 && !kernel.Named(algorithm).Bursts {
			continue
		}
		s.Name, s.Algorithm = fmt.Sprintf("p%d", i), algorithm
		tr.Policies = append(tr.Policies, NewPolicy(t, s))
		s.Limit = max(1, s.Limit/2)
		tr.changed = append(tr.changed, NewPolicy(t, s))
	}
	return tr
}

// leaseBoth leases in all stores, gives one of the last leases back, or both in one step. It returns the
// policy if units were leased.
func leaseBoth(t *testing.T, tr *Trace, stores []*Candidate) *limiter.Policy {
	t.Helper()
	c := tr.request()[0]
	if c.Policy.Algorithm.Logs && c.Weight > kernel.LogUnits/4 {
		c.Weight = 1
	}
	wish := kernel.Wish{Units: tr.Random.Int64N(c.Policy.Capacity() + 1), Lasts: tr.Random.Int64N(2*c.Policy.Params.LongestLease() + 2)}
	var rest int64
	var back *heldLease
	if len(tr.leases) > 0 && tr.Random.IntN(2) == 0 {
		at := max(0, len(tr.leases)-1-tr.Random.IntN(3))
		back = &tr.leases[at]
		c.Policy, c.Key = back.check.Policy, back.check.Key
		c.Weight = min(c.Weight, c.Policy.Capacity())
		c.Reserve = min(c.Reserve, c.Policy.MostReserve())
		wish.Units = min(wish.Units, c.Policy.Capacity())
		rest = 1 + tr.Random.Int64N(back.leases[0].Units)
		if tr.Random.IntN(2) == 0 {
			c.Peek, wish = true, kernel.Wish{}
		}
		defer func() { tr.leases = slices.Delete(tr.leases, at, at+1) }()
	}
	tr.note(fmt.Sprintf("lease %+v, %d back,", wish, rest), []limiter.Check{c})
	var leases []kernel.Lease
	var results []limiter.Result
	for i, s := range stores {
		var r kernel.Receipt
		if back != nil {
			r = back.leases[i].Receipt
		}
		result, l := s.Lease(t, &c, wish, rest, r)
		results, leases = append(results, result), append(leases, l)
	}
	a, b := leases[0], leases[1]
	if results[0] != results[1] || a != b {
		t.Fatalf("at epoch%+d, %v, weight %d, reserve %d, wish %+v, %d back: what %s answers is to be as of %s: %s; the lease: %s",
			tr.Now-Epoch, c.Policy.Settings, limiter.Units(&c), c.Reserve, wish, rest, stores[0].Name, stores[1].Name,
			assert.Differ(results[0], results[1]), assert.Differ(a, b))
	}
	if a.Units == 0 {
		return nil
	}
	if longest := c.Policy.Params.LongestLease() * c.Policy.Params.Tick; a.Lasts > longest || a.Units > c.Policy.Capacity()/4 || a.Units > wish.Units {
		t.Fatalf("%v: leased %+v for the wish %+v", c.Policy.Settings, a, wish)
	}
	tr.leases = append(tr.leases, heldLease{c, leases})
	return c.Policy
}
