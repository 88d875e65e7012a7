package memory

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest"
)

// TestLastSeen_denials has an answer take some milliseconds from a Redis whose clock is some
// milliseconds behind. This process then denies at least as long as Redis, and no whole window
// longer.
func TestLastSeen_denials(t *testing.T) {
	t.Parallel()
	const window = 15 * time.Minute
	for _, algorithm := range limiter.Algorithms() {
		for _, into := range []time.Duration{0, time.Millisecond, window / 3, window - time.Millisecond} {
			now := storetest.Epoch + into.Microseconds()
			remote, local := NewOnClock(func() int64 { return now }), NewOnClock(func() int64 { return now })
			p := storetest.NewPolicy(t, limiter.Settings{Algorithm: algorithm, Limit: 5, Window: window})
			for range 5 {
				storetest.Decide(t, remote, limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Weight: 1})
			}
			denied := storetest.Decide(t, remote, limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Weight: 1})[0]
			now += 25_000 // transit time, and the clocks' difference
			local.Remember(&denied)
			got := storetest.Decide(t, local, limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Weight: 1})[0].Result
			if wait := denied.Result.RetryAfter; got.RetryAfter < wait-time.Second || got.RetryAfter > wait+window/10 {
				t.Errorf("%s, %v into the window: denied for %v, on Redis for %v", algorithm, into, got.RetryAfter, wait)
			}
		}
	}
}

// TestLastSeen_out_of_order has the answer to a request arrive after the answers to later ones.
func TestLastSeen_out_of_order(t *testing.T) {
	t.Parallel()
	for _, algorithm := range limiter.Algorithms() {
		now := storetest.Epoch
		remote, local := NewOnClock(func() int64 { return now }), NewOnClock(func() int64 { return now })
		p := storetest.NewPolicy(t, limiter.Settings{Algorithm: algorithm, Limit: 5, Window: 24 * time.Hour})
		var answers []limiter.Check
		for range 6 {
			now += 1000
			answers = append(answers, storetest.Decide(t, remote, limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Weight: 1})[0])
		}
		assert.FatalIf(t, !answers[4].Result.Passes() || answers[5].Result.Passes(), "%s: %v", algorithm, answers)
		local.Remember(&answers[5])
		local.Remember(&answers[3])
		assert.ErrorIf(t, storetest.Decide(t, local, limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Weight: 1})[0].Result.Passes(),
			"%s: a sixth request of 5 passes", algorithm)
	}
}

// TestLastSeen_lower_limit has a request of the same quota denied by a much lower limit, some seconds after nine
// tenths of the higher one were used. That many are still known to be used.
func TestLastSeen_lower_limit(t *testing.T) {
	t.Parallel()
	for _, algorithm := range limiter.Algorithms() {
		now := storetest.Epoch
		remote, local := NewOnClock(func() int64 { return now }), NewOnClock(func() int64 { return now })
		p := storetest.NewPolicy(t, limiter.Settings{Algorithm: algorithm, Limit: 1000, Window: 24 * time.Hour, Dynamic: true})
		low := assert.NoError(p.WithLimit(10, 0))(t)
		used := storetest.Decide(t, remote, limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Weight: 900})
		local.Remember(&used[0])
		now += 3_000_000
		denied := storetest.Decide(t, remote, limiter.Check{Policy: low, Key: limiter.EncodeKey("k")})
		assert.FatalIf(t, denied[0].Result.Passes(), "%s: the lower limit passes", algorithm)
		local.Remember(&denied[0])
		for weight, passes := range map[int64]bool{99: true, 101: false} {
			got := storetest.Decide(t, local, limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Weight: weight})[0].Result
			assert.ErrorIf(t, got.Passes() != passes, "%s: %d units beside 900 of 1,000: %+v", algorithm, weight, got)
		}
	}
}

// TestLastSeen_higher_limit has the higher limit used up after a denial by a much lower one. The bucket drains by the
// higher one.
func TestLastSeen_higher_limit(t *testing.T) {
	t.Parallel()
	for _, algorithm := range limiter.Algorithms() {
		now := storetest.Epoch
		remote, local := NewOnClock(func() int64 { return now }), NewOnClock(func() int64 { return now })
		p := storetest.NewPolicy(t, limiter.Settings{Algorithm: algorithm, Limit: 1000, Window: 24 * time.Hour, Dynamic: true})
		if !p.IsBucket() {
			continue
		}
		low := assert.NoError(p.WithLimit(10, 0))(t)
		for _, c := range []limiter.Check{{Policy: p, Weight: 900}, {Policy: low, Weight: 1}, {Policy: p, Weight: 100}} {
			c.Key = limiter.EncodeKey("k")
			local.Remember(&storetest.Decide(t, remote, c)[0])
		}
		now += 12 * time.Hour.Microseconds()
		for _, weight := range []int64{501, 500} {
			got := storetest.Decide(t, local, limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Weight: weight})[0].Result
			assert.ErrorIf(t, got.Passes() != (weight == 500), "%s: %d units after half a window: %+v", algorithm, weight, got)
		}
	}
}

// TestLastSeen_other_limits decides here by other limits than the one that Redis has answered to. What remains is at
// most what Redis has, and for buckets at most a unit less.
func TestLastSeen_other_limits(t *testing.T) {
	t.Parallel()
	for _, algorithm := range limiter.Algorithms() {
		for seed, play := range assert.Plays(t, 300, 3000) {
			random := rand.New(rand.NewPCG(seed, 4))
			now := storetest.Epoch
			remote, local := NewOnClock(func() int64 { return now }), NewOnClock(func() int64 { return now })
			p := storetest.NewPolicy(t, limiter.Settings{Algorithm: algorithm, Limit: 1000, Window: time.Hour, Dynamic: true})
			whole := int64(0) // when the quota is whole again by the limit of the answer, which Redis keeps it for
			for range 1 + random.IntN(3) {
				weight := 1 + random.Int64N(300)
				play.Step("%s: epoch%+d takes %d", algorithm, now-storetest.Epoch, weight)
				answer := storetest.Decide(t, remote, limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Weight: weight})[0]
				local.Remember(&answer)
				whole = now + answer.Result.ResetAfter.Microseconds()
				now += random.Int64N(60_000_000)
			}
			if now >= whole {
				continue
			}
			other := assert.NoError(p.WithLimit(1+random.Int64N(3000), 0))(t)
			play.Step("%s: epoch%+d looks by a limit of %d", algorithm, now-storetest.Epoch, other.Capacity())
			check := limiter.Check{Policy: other, Key: limiter.EncodeKey("k"), Peek: true}
			want := storetest.Decide(t, remote, check)[0].Result.Remaining
			got := storetest.Decide(t, local, check)[0].Result.Remaining
			if least := want - 1 - other.Capacity()/1000; got > want || p.IsBucket() && got < least {
				t.Fatalf("%s, limit %d: %d remain, want %d to %d", algorithm, other.Capacity(), got, least, want)
			}
		}
	}
}

// TestLastSeen_clock_steps_back has the clocks of the node and of Redis set back by three hours: the newest
// answer counts, and not the stricter one of before.
func TestLastSeen_clock_steps_back(t *testing.T) {
	t.Parallel()
	now := storetest.Epoch
	m := NewOnClock(func() int64 { return now })
	p := storetest.NewPolicy(t, limiter.Settings{Algorithm: limiter.FixedWindow, Limit: 5, Window: 24 * time.Hour})
	m.Remember(&limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), State: limiter.CheckState{DecidedAt: now}, Result: limiter.Result{Remaining: 0, ResetAfter: time.Hour}})
	now -= 3 * time.Hour.Microseconds()
	m.Remember(&limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), State: limiter.CheckState{DecidedAt: now}, Result: limiter.Result{Remaining: 4, ResetAfter: time.Hour}})
	left := storetest.Decide(t, m, limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Peek: true})[0].Result.Remaining
	assert.ErrorIf(t, left != 4, "%d units remain, want 4", left)
}

// TestLastSeen_clock_steps_back_in_outage has the node's clock set back after Redis's last answer: no client waits
// for the size of the step, which is as without Redis.
func TestLastSeen_clock_steps_back_in_outage(t *testing.T) {
	t.Parallel()
	policies := []*limiter.Policy{storetest.NewPolicy(t, limiter.Settings{Name: "calendar", Calendar: "day", Limit: 5})}
	for _, algorithm := range limiter.Algorithms() {
		policies = append(policies, storetest.NewPolicy(t, limiter.Settings{Name: algorithm, Algorithm: algorithm, Limit: 5, Window: time.Minute}))
	}
	for _, p := range policies {
		for _, step := range []time.Duration{time.Second, 30 * time.Second, time.Hour, 100 * time.Hour} {
			now := storetest.Epoch
			here := func() int64 { return now }
			remote, local := NewOnClock(here), NewOnClock(here)
			check := limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Weight: 5}
			answer := storetest.Decide(t, remote, check)[0]
			local.Remember(&answer)
			now -= step.Microseconds()
			check.Weight = 1
			want := storetest.Decide(t, remote, check)[0].Result
			got := storetest.Decide(t, local, check)[0].Result
			assert.ErrorIf(t, got.RetryAfter != want.RetryAfter || got.ResetAfter > want.ResetAfter,
				"%s, %v back: %+v, want %+v, as without Redis", p.Name(), step, got, want)
			local.Remember(&limiter.Check{Policy: p, Key: check.Key, State: limiter.CheckState{DecidedAt: now},
				Result: limiter.Result{Remaining: 0, ResetAfter: time.Second}})
			now += 3 * time.Second.Microseconds()
			if step > time.Minute { // the last answer is all that counts
				got = storetest.Decide(t, local, check)[0].Result
				assert.ErrorIf(t, !got.Passes() && p.Params.Periods == nil, "%s, %v back: %+v after Redis's answer has reset", p.Name(), step, got)
			}
		}
	}
}

// TestKernel_restoreState compares states, at random later instants, with those restored from the
// last answers about them, to takes and to refunds of all or some of their units.
func TestKernel_restoreState(t *testing.T) {
	t.Parallel()
	for _, algorithm := range limiter.Algorithms() {
		t.Run(algorithm, func(t *testing.T) {
			for seed, play := range assert.Plays(t, 300, 3000) {
				random := rand.New(rand.NewPCG(seed, 2))
				now := int64(1_000_000_000_000) + random.Int64N(1e9)
				p := storetest.NewPolicy(t, limiter.Settings{Name: "p", Algorithm: algorithm, Limit: 1 + random.Int64N(20), Window: time.Duration(1+random.Int64N(5_000)) * time.Millisecond, Refunds: true})
				whole, local := NewOnClock(func() int64 { return now }), NewOnClock(func() int64 { return now })
				for range 20 {
					now += random.Int64N(p.Params.Window * p.Params.Tick / 3)
					check := []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k"), Weight: 1 + random.Int64N(p.Capacity()), Refundable: true}}
					play.Step("%d takes %d of %v", now, check[0].Weight, p.Settings)
					_, _ = whole.Decide(t.Context(), check) // cannot fail
					local.Remember(&check[0])
					if limiter.Allowed(check) && random.IntN(2) == 0 {
						now += random.Int64N(p.Params.Window * p.Params.Tick / 3)
						cost := random.Int64N(check[0].Weight)
						play.Step("%d settles them to %d", now, cost)
						whole.Settle(check[0], cost)
						local.RememberRefund(&storetest.Decide(t, whole, limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Peek: true})[0])
					}
				}
				for range 5 {
					now += random.Int64N(p.Params.Window * p.Params.Tick)
					play.Step("%d looks", now)
					have := storetest.Decide(t, whole, limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Peek: true})[0].Result
					got := storetest.Decide(t, local, limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Peek: true})[0].Result
					assert.FatalIf(t, got.Remaining > have.Remaining,
						"%v: %d remain, of what had %d", p.Settings, got.Remaining, have.Remaining)
					assert.FatalIf(t, have.ResetAfter == 0 && got.Remaining != p.Capacity(),
						"%v: %d remain of a quota that is free again", p.Settings, got.Remaining)
				}
			}
		})
	}
}

// TestLastSeen_no_room has an answer for which there is no room: the store reports it before an outage begins.
func TestLastSeen_no_room(t *testing.T) {
	t.Parallel()
	remote, local := New(), New()
	local.Limit(1, nil)
	p := storetest.DayPolicy(t, "room", limiter.FixedWindow, 5)
	for i, want := range []int64{0, 1, 2} {
		answer := storetest.Decide(t, remote, limiter.Check{Policy: p, Key: limiter.EncodeKey(strconv.Itoa(i))})[0]
		local.Remember(&answer)
		assert.Equal(t, local.Overflows(), want, "client %d: the number of overflows", i)
	}
}

// TestMemory_ban_bound has far more clients banned than there is room for: the bound holds, every place is
// counted once, and all are free again when the bans have ended.
func TestMemory_ban_bound(t *testing.T) {
	t.Parallel()
	const bound = 500
	now := int64(1_000_000_000_000)
	m := NewOnClock(func() int64 { return now })
	m.Limit(bound, nil)
	p := storetest.NewPolicy(t, limiter.Settings{Name: "bound", Algorithm: limiter.FixedWindow, Limit: 1, Window: time.Minute, Ban: []time.Duration{time.Hour}})
	counted := func() (n int64) {
		for i := range m.TableOf(p).Shards {
			s := &m.TableOf(p).Shards[i]
			n += int64(len(s.Plain) + len(s.Seen) + len(s.Bans))
		}
		return n
	}
	flood := func(name string) {
		for i := range 5000 {
			for range 3 {
				storetest.Decide(t, m, limiter.Check{Policy: p, Key: limiter.EncodeKey(fmt.Sprint(name, i))})
			}
		}
		assert.ErrorIf(t, m.Len() > bound || m.Len() != counted(),
			"%s: %d keys are counted, and %d are there; want at most %d", name, m.Len(), counted(), bound)
	}
	flood("first")
	n := int64(len(m.Banned("bound")))
	assert.ErrorIf(t, n == 0 || n > bound, "%d clients are banned", n)
	m.UnbanAll("bound")
	if n := len(m.Banned("bound")); n != 0 || m.Len() != counted() {
		t.Errorf("%d clients are banned, %d keys of %d counted", n, counted(), m.Len())
	}
	flood("second")
	now += 10 * int64(time.Hour/time.Microsecond)
	m.Prune()
	assert.ErrorIf(t, m.Len() != 0, "%d keys are left when all has ended", m.Len())
}

// TestMemory_ban_answers has answers that say nothing of a ban follow the one that tells of it: one that was decided
// before it, by the time of Redis, and one to a request above the capacity.
func TestMemory_ban_answers(t *testing.T) {
	t.Parallel()
	p, m := storetest.HourBan(t, "p", 1), New()
	banned := limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), State: limiter.CheckState{DecidedAt: 10}, Result: limiter.Result{RetryAfter: time.Hour, Banned: true, BanLeft: time.Hour}}
	for _, after := range []struct {
		asOf   int64
		answer limiter.Result
		banned bool
	}{
		{9, limiter.Result{Remaining: 1}, true},
		{10, limiter.Result{RetryAfter: time.Minute}, true},
		{11, limiter.Result{RetryAfter: limiter.Never}, true},
		{11, limiter.Result{Remaining: 1}, false},
	} {
		m.Remember(&banned)
		later := limiter.Check{Policy: p, Key: banned.Key, State: limiter.CheckState{DecidedAt: after.asOf}, Result: after.answer}
		m.Remember(&later)
		got := storetest.Decide(t, m, limiter.Check{Policy: p, Key: banned.Key})[0].Result
		assert.ErrorIf(t, got.Banned != after.banned, "after %+v: %+v", after, got)
	}
}

// TestMemory_ban_full has room for a count and none for a ban: denials stay denials.
func TestMemory_ban_full(t *testing.T) {
	t.Parallel()
	p, m := storetest.HourBan(t, "p", 1), New()
	m.Limit(1, nil)
	for i, want := range []bool{true, true, false, false} {
		r := assert.NoError(storetest.Allow(t.Context(), m, p, "k"))(t)
		assert.ErrorIf(t, r.Passes() != want || r.Banned, "request %d: %+v", i, r)
	}
	m.Limit(2, nil)
	r := assert.NoError(storetest.Allow(t.Context(), m, p, "k"))(t)
	assert.ErrorIf(t, !r.BanBegins, "with room: %+v", r)
}

// TestLastSeen_refund_out_of_order has the answers to takes arrive after that to a later refund, by Redis's clock.
func TestLastSeen_refund_out_of_order(t *testing.T) {
	t.Parallel()
	for _, p := range storetest.RefundingPolicies(t, 5) {
		now := storetest.Epoch
		remote, local := NewOnClock(func() int64 { return now }), NewOnClock(func() int64 { return now })
		var answers []limiter.Check
		for range 3 {
			now += 1000
			answers = append(answers, storetest.Decide(t, remote, limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Refundable: true})[0])
		}
		now += 1000
		storetest.RefundIn(remote, answers[1:2])
		refunded := storetest.Decide(t, remote, limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Peek: true})[0]
		for i, step := range []struct {
			answer *limiter.Check
			refund bool
			left   int64
		}{{&refunded, true, 5}, {&answers[0], false, 4}, {&refunded, true, 3}, {&answers[2], false, 3}, {&answers[1], false, 3}} {
			if step.refund {
				local.RememberRefund(step.answer)
			} else {
				local.Remember(step.answer)
			}
			left := storetest.Decide(t, local, limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Peek: true})[0].Result.Remaining
			assert.ErrorIf(t, left != step.left, "%s, step %d: %d remain, want %d", p.Name(), i, left, step.left)
		}
	}
}
