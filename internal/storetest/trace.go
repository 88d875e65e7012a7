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

// This file makes up the traces of the conformance suite.

// TracePolicies returns the policies that traces choose from: every algorithm with small and large
// limits, bursts, queues, bans, and one that counts in milliseconds.
func TracePolicies(t testing.TB) []*limiter.Policy {
	t.Helper()
	var policies []*limiter.Policy
	add := func(s limiter.Settings) {
		s.Name = fmt.Sprintf("p%d", len(policies))
		policies = append(policies, NewPolicy(t, s))
	}
	strict, patient := time.Duration(0), 700*time.Millisecond
	for _, algorithm := range limiter.Algorithms() {
		add(limiter.Settings{Algorithm: algorithm, Limit: 1, Window: 10 * time.Second})
		add(limiter.Settings{Algorithm: algorithm, Limit: 3, Window: time.Second})
		add(limiter.Settings{Algorithm: algorithm, Limit: 50, Window: time.Minute})
		add(limiter.Settings{Algorithm: algorithm, Limit: 7, Window: 3 * time.Millisecond})
		add(limiter.Settings{Algorithm: algorithm, Limit: 100_000, Window: 24 * time.Hour})
		if kernel.Named(algorithm).Bursts {
			add(limiter.Settings{Algorithm: algorithm, Limit: 10, Window: 2 * time.Second, Burst: 3})
			add(limiter.Settings{Algorithm: algorithm, Limit: 2, Window: time.Minute, Burst: 9})
		}
	}
	for _, algorithm := range []string{limiter.TokenBucket, limiter.LeakyBucket, limiter.GCRA} {
		add(limiter.Settings{Algorithm: algorithm, Limit: 5, Window: time.Second, MaxDelay: &strict})
		add(limiter.Settings{Algorithm: algorithm, Limit: 5, Window: time.Second, Burst: 8, MaxDelay: &patient})
	}
	for _, algorithm := range []string{limiter.FixedWindow, limiter.SlidingWindowCounter, limiter.SlidingWindowLog, limiter.GCRA} {
		add(limiter.Settings{Algorithm: algorithm, Limit: 3, Window: time.Second, Ban: []time.Duration{time.Second}})
		add(limiter.Settings{Algorithm: algorithm, Limit: 2, Window: 10 * time.Second, Ban: []time.Duration{3 * time.Second, 20 * time.Second, 30 * time.Second}, BanAfter: 3})
	}
	add(limiter.Settings{Algorithm: limiter.FixedWindow, Limit: 100_000, Window: 24 * time.Hour, Ban: []time.Duration{time.Hour}, BanAfter: 2, Dynamic: true})
	add(limiter.Settings{Algorithm: limiter.LeakyBucket, Limit: 5, Window: time.Second, MaxDelay: &patient, Ban: []time.Duration{2 * time.Second}, BanAfter: 2})
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	add(limiter.Settings{Calendar: "day", Limit: 3})
	add(limiter.Settings{Calendar: "day", Location: zone, Limit: 100_000, Ban: []time.Duration{3 * time.Hour, 40 * time.Hour}, BanAfter: 2})
	add(limiter.Settings{Calendar: "week", Location: zone, Limit: 50})
	add(limiter.Settings{Calendar: "month", Location: zone, Limit: limiter.MaxCharge})
	add(limiter.Settings{Calendar: "month", Limit: 7, Ban: []time.Duration{time.Second}})
	add(limiter.Settings{Calendar: "year", Location: zone, Limit: 5})
	add(limiter.Settings{Calendar: "day@02:30", Location: zone, Limit: 3})
	add(limiter.Settings{Calendar: "week@wednesday", Limit: 4, Ban: []time.Duration{time.Hour}, BanAfter: 2})
	add(limiter.Settings{Calendar: "month@31", Location: zone, Limit: 5})
	return policies
}

// Trace is a random walk through requests, biased to the edges of windows and waits.
type Trace struct {
	Random   *rand.Rand
	Policies []*limiter.Policy
	Now      int64               // microseconds
	changed  []*limiter.Policy   // the same policies with another limit and burst, on the same states
	waits    []int64             // waits lately answered, in microseconds
	reserved [][][]limiter.Check // requests that may be refunded, as each store has answered them
	leases   []heldLease         // that may be given back

	// Play is told the steps; nil for none.
	Play *assert.Play
}

// newTrace chooses four policies, for every other seed of one algorithm, for every third of those that
// ban. Some of these refund.
func newTrace(t *testing.T, seed uint64) *Trace {
	t.Helper()
	tr := &Trace{Random: rand.New(rand.NewPCG(seed, 1)), Now: Epoch, Play: assert.NewPlay(t, seed)}
	all := TracePolicies(t)
	if only := limiter.Algorithms()[seed/2%uint64(len(limiter.Algorithms()))]; seed%2 == 1 {
		all = slices.DeleteFunc(all, func(p *limiter.Policy) bool { return p.Settings.Algorithm != only })
	} else if seed%3 == 0 {
		all = slices.DeleteFunc(all, func(p *limiter.Policy) bool { return p.Ban == nil })
	}
	for _, i := range tr.Random.Perm(len(all))[:4] {
		s := all[i].Settings
		if all[i].Ban != nil && tr.Random.IntN(3) == 0 {
			s.Refunds = s.MaxDelay == nil
		}
		tr.Policies = append(tr.Policies, NewPolicy(t, s))
		s.Limit = max(1, s.Limit/2)
		if s.Burst > 0 {
			s.Burst = max(1, s.Burst/3)
		}
		tr.changed = append(tr.changed, NewPolicy(t, s))
	}
	return tr
}

// Step moves the clock: often not at all, often to an edge plus or minus a tick, now and then
// backwards.
func (tr *Trace) Step() {
	p := tr.Policies[tr.Random.IntN(len(tr.Policies))]
	window := p.Settings.Window.Microseconds()
	nudge := (tr.Random.Int64N(3) - 1) * p.Params.Tick
	switch tr.Random.IntN(10) {
	case 0, 1, 2:
	case 3:
		tr.Now = (tr.Now/window+1)*window + nudge
		if p.Params.Periods != nil {
			tr.Now = p.Params.Periods.Around(tr.Now)[2] + nudge
		}
	case 4:
		tr.Now += window + nudge
	case 5, 6:
		if len(tr.waits) > 0 {
			tr.Now += tr.waits[tr.Random.IntN(len(tr.waits))] + nudge
		}
	case 7:
		tr.Now += tr.Random.Int64N(window/4 + 1)
	case 8:
		tr.Now += tr.Random.Int64N(2000)
	case 9:
		full := p.Params.Full * p.Params.Tick
		back := []int64{tr.Random.Int64N(2*window + 1), window + nudge, full + nudge, p.Params.Tick}
		if tr.Random.IntN(3) == 0 {
			tr.Now -= back[tr.Random.IntN(len(back))]
		}
	}
	tr.Now = max(tr.Now, Epoch-86_400_000_000)
}

// Note tells the play that a request of a weight comes next, which leaves so many units.
func (tr *Trace) Note(what string, p *limiter.Policy, weight, reserve int64) {
	if tr.Play != nil {
		tr.Play.Step("epoch%+d %s %s: weight %d, %d left", tr.Now-Epoch, what, p.Name(), weight, reserve)
	}
}

// note tells the play what happens next to the first of some checks, and how many others are decided with it.
func (tr *Trace) note(what string, checks []limiter.Check) {
	if tr.Play == nil || len(checks) == 0 {
		return
	}
	c := &checks[0]
	tr.Play.Step("epoch%+d %s %s of %s: weight %d, %d left, peek %t; and %d more",
		tr.Now-Epoch, what, c.Key, c.Policy.Name(), c.Weight, c.Reserve, c.Peek, len(checks)-1)
}

// StepFor moves the clock, for a policy that bans never backwards: a count that a wrong clock wrote and
// that is none now may count again when the ban ends.
func (tr *Trace) StepFor(p *limiter.Policy) {
	before := tr.Now
	tr.Step()
	if p.Ban != nil {
		tr.Now = max(tr.Now, before)
	}
}

// request makes up one to three checks of different policies.
func (tr *Trace) request() []limiter.Check {
	checks := make([]limiter.Check, 1+tr.Random.IntN(3)*tr.Random.IntN(2))
	for i, at := range tr.Random.Perm(len(tr.Policies))[:len(checks)] {
		p := tr.Policies[at]
		if tr.Random.IntN(8) == 0 {
			p = tr.changed[at]
		}
		weights := []int64{0, 1, 1, 1, 1, 2, 3, p.Capacity(), p.Capacity() + 1, 1 + tr.Random.Int64N(p.Capacity())}
		checks[i] = limiter.Check{Policy: p, Key: limiter.EncodeKey(fmt.Sprint("k", tr.Random.IntN(2))), Weight: weights[tr.Random.IntN(len(weights))]}
		checks[i].Peek = checks[i].Weight == 0
		checks[i].Reserve = tr.Reserve(p)
	}
	return checks
}

// look makes some of the checks looks, which leave out nothing or some of what is taken.
func (tr *Trace) look(checks []limiter.Check) {
	for i := range checks {
		c := &checks[i]
		if c.Peek || c.Policy.CountsRunning || tr.Random.IntN(4) > 0 {
			continue
		}
		credits := []int64{0, 0, 1, c.Weight, tr.Random.Int64N(c.Weight + 1)}
		c.Look, c.Credit = true, credits[tr.Random.IntN(len(credits))]
	}
}

// Reserve makes up what a request leaves to others: often nothing, now and then more than there can be.
func (tr *Trace) Reserve(p *limiter.Policy) int64 {
	reserves := []int64{0, 0, 0, 1, 2, p.MostReserve(), p.Capacity(), tr.Random.Int64N(p.Capacity())}
	return reserves[tr.Random.IntN(len(reserves))]
}

// Learn keeps the answers' waits, so that later steps land on them.
func (tr *Trace) Learn(checks []limiter.Check) {
	for i := range checks {
		for _, wait := range []time.Duration{checks[i].Result.RetryAfter, checks[i].Result.ResetAfter} {
			if wait > 0 && wait < 1000*24*time.Hour && len(tr.waits) < 8 {
				tr.waits = append(tr.waits, wait.Microseconds())
			}
		}
	}
	if len(tr.waits) >= 8 {
		tr.waits = tr.waits[4:]
	}
}
