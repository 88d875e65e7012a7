package redis_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/kernel"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/memory"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redis"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest/stores"
)

// refundTrace plays the same on a bucket in both stores, whose states it compares byte by byte.
type refundTrace struct {
	p          *limiter.Policy
	play       *assert.Play
	random     *rand.Rand
	now        int64
	stores     []*storetest.Candidate
	memory     *memory.Store
	redis      *redis.Store
	open       [][][]limiter.Check // reservations, as each store has answered them
	most, sums int
}

func (r *refundTrace) step(t *testing.T) {
	t.Helper()
	p := r.p
	check := limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Weight: 1 + r.random.Int64N(3)}
	kind := r.random.IntN(16)
	check.Refundable = kind < 7
	at := 0
	if len(r.open) > 0 {
		at = r.random.IntN(len(r.open))
	}
	part := r.random.IntN(4) == 0
	what := []string{8: "charge", 9: "repay", 10: "refund"}[min(max(kind, 7), 10)]
	r.play.Step("epoch%+d %s: weight %d, refundable %t, reservation %d of %d, in part %t",
		r.now-storetest.Epoch, cmp.Or(what, "take"), check.Weight, check.Refundable, at, len(r.open), part)
	var answers [2][]limiter.Check
	for i, s := range r.stores {
		s.SetClock(r.now)
		answers[i] = []limiter.Check{check}
		switch {
		case kind < 8:
			s.Request(t, answers[i]...)
		case kind == 8:
			s.Charge(answers[i])
		case kind == 9:
			s.Repay(t, &check, kernel.Debt{Amount: check.Weight * p.Params.Window * 2 / 3})
		case len(r.open) > 0:
			refund := slices.Clone(r.open[at][i])
			if part {
				refund[0].Weight = 1
			}
			s.Refund(refund)
		}
	}
	if kind > 9 && len(r.open) > 0 {
		r.open = slices.Delete(r.open, at, at+1)
	}
	differ := assert.Differ(answers[0][0].Result, answers[1][0].Result)
	assert.FatalIf(t, differ != "", "the first store answers not as the second: %s", differ)
	if check.Refundable && limiter.Allowed(answers[0]) {
		r.open = append(r.open, [][]limiter.Check{answers[0], answers[1]})
	}
}

// compare compares the states, but for the instants at which they were stored where nothing is owed.
func (r *refundTrace) compare(t *testing.T) {
	t.Helper()
	s := r.memory.Lock(r.p, "k")
	held, found := s.Kept("k")
	s.Mu.Unlock()
	if !found {
		return
	}
	numbers := []float64{float64(held.A), float64(held.B)}
	if held.C != 0 {
		numbers = append(numbers, float64(held.C))
	}
	if held.Holes != nil {
		r.most = max(r.most, len(*held.Holes))
		for _, h := range *held.Holes {
			if h.Sum {
				h.Ended += kernel.SerialMask + 1
				r.sums++
			}
			numbers = append(numbers, float64(h.Ended), float64(h.Units))
		}
	}
	stored := r.redis.Client().Get(t.Context(), r.redis.RedisKey(r.p, limiter.EncodeKey("k"))).Val()
	if stored != redistest.Doubles(numbers...) {
		var got []float64
		for i := range len(stored) / 8 {
			got = append(got, redis.Double(stored, i))
		}
		t.Fatalf("Redis holds %.0f, the process %.0f", got, numbers)
	}
}

// TestStores_Refund_agree compares answers and states of both stores, with and without sums of holes.
func TestStores_Refund_agree(t *testing.T) {
	t.Parallel()
	most, sums := 0, 0
	for seed, play := range assert.Plays(t, 8, 8) {
		p := storetest.NewPolicy(t, limiter.Settings{Name: fmt.Sprint("agree", seed), Algorithm: limiter.TokenBucket, Limit: 2, Window: time.Second, Burst: 20 + 40*int64(seed)})
		r := &refundTrace{p: p, play: play, random: rand.New(rand.NewPCG(seed, 9)), now: storetest.Epoch, stores: make([]*storetest.Candidate, 2)}
		r.stores[0], r.memory = stores.NewMemory()
		r.stores[1], r.redis = stores.NewRedis(t, redistest.Shared(t))
		for range 1200 {
			switch r.random.IntN(150) {
			case 0:
				r.now += r.random.Int64N(2 * p.Params.Full)
			case 1, 2:
				r.now -= r.random.Int64N(p.Params.Full / 4)
			default:
				r.now += []int64{0, 0, 1, r.random.Int64N(storetest.Sec)}[r.random.IntN(4)]
			}
			r.step(t)
			r.compare(t)
		}
		most, sums = max(most, r.most), sums+r.sums
	}
	assert.ErrorIf(t, assert.AllSeeds() && (most != kernel.MaxHoles || sums == 0), "at most %d holes, %d sums", most, sums)
}

// TestRedis_Refund_long_tail moves up as many later entries as a refund may rewrite.
func TestRedis_Refund_long_tail(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	r, client := stores.Open(t, server), server.Client(t)
	p := storetest.RefundingPolicy(t, "log", limiter.SlidingWindowLog, 10_000)
	const later = kernel.LogRewritten
	first := storetest.Decide(t, r, limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Weight: 1, Refundable: true})
	for range later / 100 {
		var calls []*redis.Call
		for range 100 {
			calls = append(calls, redis.NewCall(redis.OpTake, []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k"), Weight: 1}}))
		}
		r.Send(context.Background(), r.Topology.AnyNode, calls)
	}
	storetest.RefundIn(r, first)
	name := r.RedisKey(p, limiter.EncodeKey("k"))
	assert.Retry(t, "the entry is gone", func() (again bool, seen any) {
		n, err := client.LLen(t.Context(), name).Result()
		return err != nil || n != later, fmt.Sprintf("%d entries, %v", n, err)
	})
	entries := client.LRange(t.Context(), name, 0, -1).Val()
	for i, entry := range entries {
		total := int(entry[9])<<8 | int(entry[10])
		assert.FatalIf(t, total != i+1, "entry %d of %d has the total %d", i, len(entries), total)
	}
	ttl := client.PTTL(t.Context(), name).Val()
	assert.ErrorIf(t, ttl <= 0, "the list has a TTL of %v", ttl)
	storetest.WantRemaining(t, r, p, "k", 10_000-later)
}

// TestSlidingWindowLog_refund_run sends refunds that together rewrite more than one run may.
func TestSlidingWindowLog_refund_run(t *testing.T) {
	t.Parallel()
	r := stores.Open(t, redistest.Shared(t))
	p := storetest.DayPolicy(t, "run", limiter.SlidingWindowLog, 100_000)
	const refunds, later = 20, 400
	var calls []*redis.Call
	for i := range refunds + later {
		c := redis.NewCall(redis.OpTake|redis.WithReceipt, []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k"), Weight: 1}})
		if r.Send(context.Background(), r.Topology.AnyNode, []*redis.Call{c}); c.Err != nil {
			t.Fatal(c.Err)
		}
		if i < refunds {
			calls = append(calls, newRefund(c.Checks...))
		}
	}
	for runs := 1; len(calls) > 0; runs++ {
		r.Send(context.Background(), r.Topology.AnyNode, calls)
		before := len(calls)
		calls = slices.DeleteFunc(calls, func(c *redis.Call) bool { return !c.IsPostponed() })
		if done := before - len(calls); done < 1 || done > 2 {
			t.Fatalf("run %d made %d refunds of about %d entries each, and may rewrite 1000", runs, done, later)
		}
	}
	storetest.WantRemaining(t, r, p, "k", 100_000-later)
}

// TestRedis_Refund_lifetime has a state with a serial, and one with a hole, live as long as a full bucket drains after
// every take, and others as long as they drain.
func TestRedis_Refund_lifetime(t *testing.T) {
	server := redistest.Shared(t)
	client := server.Client(t)
	s, _ := stores.NewRedis(t, server)
	p := storetest.NewPolicy(t, limiter.Settings{Name: "lifetime", Algorithm: limiter.GCRA, Limit: 1, Window: time.Second, Burst: 10})
	const grace = time.Hour // of the test's clock
	began := time.Now()
	holds := func(size int64, lives time.Duration) {
		t.Helper()
		name := "t:{k}:lifetime:g1s"
		got, ttl := client.StrLen(t.Context(), name).Val(), client.PTTL(t.Context(), name).Val()-grace
		if least := lives - time.Since(began) - 2*time.Millisecond; got != size || ttl > lives || ttl < least {
			t.Errorf("%d bytes that live for %v; want %d and %v to %v", got, ttl, size, least, lives)
		}
	}
	reserved := []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k"), Weight: 2, Refundable: true}}
	s.Play(t, storetest.Epoch, p, 1)
	holds(16, time.Second)
	s.Request(t, reserved...)
	holds(24, 10*time.Second)
	s.Play(t, storetest.Epoch, p, 1)
	holds(24, 10*time.Second)
	s.Charge([]limiter.Check{{Policy: p, Key: limiter.EncodeKey("k"), Weight: 10}})
	holds(24, 14*time.Second)
	s.Refund(reserved)
	holds(40, 14*time.Second)
}

// TestNode_refund_postponed has one of two refunds postponed, and the second try fail. The probe needs
// the policies of what was left.
func TestNode_refund_postponed(t *testing.T) {
	t.Parallel()
	p, q := storetest.DayPolicy(t, "done", limiter.SlidingWindowLog, 100), storetest.DayPolicy(t, "postponed", limiter.SlidingWindowLog, 100)
	n := &redis.Node{Failed: func() {}}
	n.Breaker = redis.Breaker{Now: clock.Now, OnOpen: func(error) {}}
	tries := 0
	n.Batcher.Send = func(_ context.Context, calls []*redis.Call) bool {
		if tries++; tries == 1 {
			calls[0].Changes[1].Postponed = true
		} else {
			calls[0].Err = &limiter.UndecidedError{Kind: "refused", Err: errors.New("down")}
		}
		return true
	}
	n.Refund(0, []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k"), Weight: 1}, {Policy: q, Key: limiter.EncodeKey("k"), Weight: 1}})
	assert.Retry(t, "the breaker opens", func() (again bool, seen any) {
		return n.Cause.Load() == nil, "closed"
	})
	got := n.Cause.Load().Policies
	assert.ErrorIf(t, len(got) != 1 || got[0] != q, "policies %v, want the postponed one alone", got)
}

// newRefund returns a call that refunds a unit of each check.
func newRefund(checks ...limiter.Check) *redis.Call {
	return redis.NewChange(checks, slices.Repeat([]limiter.Change{{Units: -1}}, len(checks))...)
}

// TestLastSeen_refund_shown refunds a unit of two: the quota is read only where an answer about it is kept.
func TestLastSeen_refund_shown(t *testing.T) {
	t.Parallel()
	r := stores.Open(t, redistest.Shared(t))
	for _, p := range storetest.RefundingPolicies(t, 5) {
		for key, left := range map[string]int64{"forgotten": 0, "kept": 4} {
			check := limiter.Check{Policy: p, Key: limiter.EncodeKey(key), Refundable: true}
			storetest.Decide(t, r, check)
			c := newRefund(storetest.Decide(t, r, check)...)
			if key == "kept" {
				c.Op |= redis.Shown
			}
			r.Send(t.Context(), r.Topology.AnyNode, []*redis.Call{c})
			if got := c.Checks[0].Result; c.Err != nil || got.Remaining != left || (got.ResetAfter > 0) != (key == "kept") {
				t.Errorf("%s, %s: %+v, error %v; want %d remaining", p.Name(), key, got, c.Err, left)
			}
			c.Recycle()
		}
	}
}

// TestNode_refund_lease refunds a request on several nodes of a Cluster that another one of them has denied. The
// debt that leases have raised stays.
func TestNode_refund_lease(t *testing.T) {
	t.Parallel()
	s, r := stores.NewRedis(t, redistest.Shared(t))
	s.SetClock(storetest.Epoch)
	p := storetest.NewPolicy(t, limiter.Settings{Name: "raised", Algorithm: limiter.GCRA, Limit: 1000, Window: time.Second, Lease: limiter.MaxLease})
	checks := []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k"), Weight: 5, Refundable: true}}
	assert.Must(t, r.DecideWithin(context.Background(), checks))
	look := limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Peek: true}
	_, l := s.Lease(t, &look, kernel.Wish{Units: 50, Lasts: p.Params.LongestLease()}, 0, kernel.Receipt{})
	assert.FatalIf(t, l.Units != 50, "leased %+v; want 50 units", l)
	r.Topology.AnyNode.Refund(0, checks)
	if got := s.Remaining(t, p, "k"); got != 940 { // 50 units, and 10 that drain until the lease ends
		t.Errorf("%d remain; want 940", got)
	}
}
