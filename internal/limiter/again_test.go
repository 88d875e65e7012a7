package limiter_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/kernel"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest"
)

// randomSettings returns a policy of any algorithm: few units and many, in windows that count in microseconds and in
// milliseconds, buckets that are queues, periods of the calendar.
func randomSettings(random *rand.Rand) limiter.Settings {
	windows := []time.Duration{time.Millisecond, 7 * time.Millisecond, time.Second, time.Minute, time.Hour, 24 * time.Hour}
	names := limiter.Algorithms()
	s := limiter.Settings{
		Name: "p", Algorithm: names[random.IntN(len(names))], Window: windows[random.IntN(len(windows))],
		Limit: 1 + []int64{random.Int64N(3), random.Int64N(20), random.Int64N(1000)}[random.IntN(3)], Dynamic: random.IntN(2) == 0,
	}
	if a := kernel.Named(s.Algorithm); a.Bursts && random.IntN(2) == 0 {
		s.Burst = 1 + random.Int64N(2*s.Limit)
	}
	if a := kernel.Named(s.Algorithm); a.Bursts && random.IntN(3) == 0 {
		s.MaxDelay = new((time.Duration(random.Int64N(int64(2*s.Window) + 1))).Truncate(time.Microsecond))
	}
	if s.Algorithm == limiter.FixedWindow && random.IntN(2) == 0 {
		s.Calendar, s.Window = "day", 0
	}
	return s
}

// emptied is a schedule of takes, charges and refunds of one quota, whose weights and reserves differ from check to check.
type emptied struct {
	random *rand.Rand
	policy *limiter.Policy
	state  kernel.State
	now    int64 // in microseconds since the Unix epoch
	latest int64 // instant that was now
}

// pass lets some time pass, often to an edge of a window, and sometimes takes a little back.
func (e *emptied) pass() {
	t := &e.policy.Params
	window := t.Window * t.Tick
	unit := max(1, window/t.Limit)
	switch e.random.IntN(7) {
	case 0:
		e.now += e.random.Int64N(2 * window)
	case 1:
		e.now += window - e.now%window + e.random.Int64N(3) - 1
	case 2:
		e.now += e.random.Int64N(3 * unit)
	case 3:
		e.now -= e.random.Int64N(unit)
	}
	e.latest = max(e.latest, e.now)
}

// check returns a check that may pass.
func (e *emptied) check() limiter.Check {
	capacity := e.policy.Capacity()
	c := limiter.Check{Policy: e.policy, Weight: []int64{1, 1 + e.random.Int64N(min(3, capacity)), 1 + e.random.Int64N(capacity)}[e.random.IntN(3)]}
	if e.random.IntN(4) == 0 {
		c.Reserve = e.random.Int64N(capacity)
	}
	return c
}

// decide decides a check now, and keeps what it takes.
func (e *emptied) decide(c *limiter.Check) {
	v := limiter.Evaluate(e.state, e.now, c)
	limiter.Answer(c, v, e.now)
	if c.Result.Passes() {
		k := c.Policy.Algorithm.Kernel
		e.state = k.Take(e.state, &c.Policy.Params, v, true)
		c.State.Receipt = k.Receipt(v)
	}
}

// disturb charges without the condition of room, or refunds a part of a check.
func (e *emptied) disturb(c *limiter.Check) {
	t, k := &e.policy.Params, e.policy.Algorithm.Kernel
	switch e.random.IntN(30) {
	case 0:
		e.state = k.Charge(e.state, e.now/t.Tick, t, 1+e.random.Int64N(t.Capacity))
	case 1:
		if c.Result.Passes() {
			e.state = k.Refund(e.state, e.now/t.Tick, t, c.Weight, 1+e.random.Int64N(c.Weight), c.State.Receipt)
		}
	}
}

// TestPassesAgainAfter plays random schedules on all kernels. What is told after a take that has left nothing is never earlier
// than what the next denial of the same request tells. By buckets it is the same but for what is below a tick, and by the
// counter it is not later than a client needs that has taken all of the limit in this window.
func TestPassesAgainAfter(t *testing.T) {
	const takes = 120_000
	seed, alone := assert.SeedAlone()
	if !alone {
		seed = uint64(time.Now().UnixNano())
	}
	random, play := rand.New(rand.NewPCG(seed, 1)), assert.NewPlay(t, seed)
	told, sooner, denied := 0, 0, 0
	for told < takes {
		policy := storetest.NewPolicy(t, randomSettings(random))
		e := emptied{random: random, policy: policy, now: 1_790_000_000_000_000 + random.Int64N(100_000_000_000)}
		for range 300 {
			e.pass()
			c := e.check()
			play.Step("%d: %v: weight %d, %d left", e.now, policy.Settings, c.Weight, c.Reserve)
			e.decide(&c)
			if c.Result.Passes() && c.Result.Remaining == 0 {
				told++
				again := limiter.PassesAgainAfter(&c)
				assert.FatalIf(t, again < 0 || again > c.Result.ResetAfter, "%v: again after %v, the reset is after %v", policy.Settings, again, c.Result.ResetAfter)
				if again > 0 && again < c.Result.ResetAfter {
					sooner++
				}
				next := limiter.Check{Policy: policy, Weight: c.Weight, Reserve: c.Reserve}
				limiter.Answer(&next, limiter.Evaluate(e.state, e.now, &next), e.now)
				if !next.Result.Passes() {
					denied++
				}
				if again == 0 {
					again = c.Result.ResetAfter
				}
				checkAgain(t, &next, again, time.Duration(e.latest-e.now)*time.Microsecond)
			}
			e.disturb(&c)
		}
	}
	t.Logf("%d takes left nothing, %d denials followed, %d were told less than the reset", told, denied, sooner)
	assert.ErrorIf(t, sooner < takes/4 || denied < takes/2, "%d of %d were told less than the reset, %d denials followed", sooner, told, denied)
}

// checkAgain compares what was told with what a check is told that is denied at the same instant, by a clock that was set back.
func checkAgain(t *testing.T, next *limiter.Check, again, setBack time.Duration) {
	t.Helper()
	p, needed := &next.Policy.Params, next.Weight+limiter.Reserve(next)
	tick, early := time.Duration(p.Tick)*time.Microsecond, next.Result.RetryAfter-again
	assert.FatalIf(t, early > 0, "%v: told %v, then %v, which is %v later (weight %d, reserve %d)", next.Policy.Settings, again, next.Result.RetryAfter, early, next.Weight, next.Reserve)
	switch {
	case next.Result.Passes():
	case next.Policy.IsBucket():
		assert.FatalIf(t, -early > 3*tick, "%v: told %v, then %v", next.Policy.Settings, again, next.Result.RetryAfter)
	case next.Policy.Settings.Algorithm == limiter.SlidingWindowCounter && needed == 1:
		window := time.Duration(p.Window) * tick
		assert.FatalIf(t, again > window+setBack+tick, "%v: told %v", next.Policy.Settings, again)
	}
}

// TestPassesAgainAfter_unknown has checks of which no more than the reset is known.
func TestPassesAgainAfter_unknown(t *testing.T) {
	p := storetest.NewPolicy(t, limiter.Settings{Name: "p", Limit: 10, Window: time.Minute})
	running := storetest.NewPolicy(t, limiter.Settings{Name: "running", MaxConcurrent: 10})
	empty := limiter.Result{ResetAfter: 100 * time.Second}
	for name, test := range map[string]struct {
		check limiter.Check
		want  time.Duration
	}{
		"known":              {limiter.Check{Policy: p, Result: empty}, 40*time.Second + time.Microsecond},
		"several units":      {limiter.Check{Policy: p, Weight: 3, Reserve: 2, Result: empty}, 64*time.Second + time.Microsecond},
		"something is left":  {limiter.Check{Policy: p, Result: limiter.Result{Remaining: 1, ResetAfter: time.Minute}}, 0},
		"denied":             {limiter.Check{Policy: p, Result: limiter.Result{RetryAfter: time.Second, ResetAfter: time.Minute}}, 0},
		"never":              {limiter.Check{Policy: p, Result: limiter.Result{ResetAfter: limiter.Never}}, 0},
		"a peek":             {limiter.Check{Policy: p, Peek: true, Result: empty}, 0},
		"charged later":      {limiter.Check{Policy: p, Charges: true, Result: empty}, 0},
		"a part of the rate": {limiter.Check{Policy: p, State: limiter.CheckState{Scaled: true}, Result: empty}, 0},
		"what runs":          {limiter.Check{Policy: running, Result: empty}, 0},
	} {
		assert.Equal(t, limiter.PassesAgainAfter(&test.check), test.want, "%s", name)
	}
}
