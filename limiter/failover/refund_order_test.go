package failover

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/kernel"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/wire"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/redis"
)

// refundTrace plays the same on a bucket in both stores, whose states it compares byte by byte.
type refundTrace struct {
	p          *limiter.Policy
	random     *rand.Rand
	now        int64
	stores     []*testStore
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
			r.repay(t, i, check.Weight*p.Rule().Params.Window*2/3)
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
	if answers[0][0].Result != answers[1][0].Result {
		t.Fatalf("%+v and %+v", answers[0], answers[1])
	}
	if check.Refundable && limiter.Allowed(answers[0]) {
		r.open = append(r.open, [][]limiter.Check{answers[0], answers[1]})
	}
}

// repay adds a debt in one of the stores.
func (r *refundTrace) repay(t *testing.T, store int, amount int64) {
	t.Helper()
	p := r.p
	if store == 0 {
		s := r.stores[0].f.local.Lock(p, "k")
		held, _ := s.Kept("k")
		if after, units := p.Rule().Algorithm.Kernel.Repay(held, r.now/p.Rule().Params.Tick, &p.Rule().Params, kernel.Debt{At: 0, Amount: amount}); units > 0 || after != held {
			s.Put("k", after)
		}
		s.Mu.Unlock()
		return
	}
	built, err := r.redis.Scripts.Get(wire.KernelSetOf(p.Rule().Algorithm))
	noError(t, err)
	v := &p.Rule().Params
	message := doubles(1, 1, float64(v.Limit), float64(v.Window), float64(v.Capacity), float64(v.MaxDelay), float64(v.MaxDebt), float64(v.Tick),
		float64(wire.OpRepay), 1, 1, 1, 1, 0, float64(amount))
	noError(t, r.redis.Client().Eval(t.Context(), built.Text, []string{r.redis.RedisKey(p, limiter.EncodeKey("k"))}, message).Err())
}

// compare compares the states, but for the instants at which they were stored where nothing is owed.
func (r *refundTrace) compare(t *testing.T) {
	t.Helper()
	s := r.stores[0].f.local.Lock(r.p, "k")
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
	if stored != doubles(numbers...) {
		var got []float64
		for i := range len(stored) / 8 {
			got = append(got, wire.Double(stored, i))
		}
		t.Fatalf("Redis holds %.0f, the process %.0f", got, numbers)
	}
}

// TestStores_Refund_agree compares answers and states of both stores, with and without sums of holes.
func TestStores_Refund_agree(t *testing.T) {
	t.Parallel()
	most, sums := 0, 0
	for seed := range uint64(8) {
		p := storetest.NewPolicy(t, limiter.Settings{Name: fmt.Sprint("agree", seed), Algorithm: limiter.TokenBucket, Limit: 2, Window: time.Second, Burst: 20 + 40*int64(seed)})
		r := &refundTrace{p: p, random: rand.New(rand.NewPCG(seed, 9)), now: storetest.Epoch, stores: testStores(t)}
		r.redis = r.stores[1].f.shared
		for range 1200 {
			switch r.random.IntN(150) {
			case 0:
				r.now += r.random.Int64N(2 * p.Rule().Params.Full)
			case 1, 2:
				r.now -= r.random.Int64N(p.Rule().Params.Full / 4)
			default:
				r.now += []int64{0, 0, 1, r.random.Int64N(storetest.Sec)}[r.random.IntN(4)]
			}
			r.step(t)
			r.compare(t)
		}
		most, sums = max(most, r.most), sums+r.sums
	}
	if most != kernel.MaxHoles || sums == 0 {
		t.Errorf("at most %d holes, %d sums", most, sums)
	}
}
