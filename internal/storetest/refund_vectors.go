package storetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// refundStep is one step of a vector with refunds, at a time in microseconds.
type refundStep struct {
	at        int64
	do        string // take, reservation, refund (all or a part), charge, or left, which compares the remaining units
	units     int64
	of        int // of a refund: the number of the reservation, from 0
	remaining int64
}

// refundVectors are hand-made sequences; the first has 151 units left had the requests taken less at
// first, and 156 where each refund measures its own drain. A refund of fewer units than were reserved keeps the others.
var refundVectors = []struct {
	name     string
	settings limiter.Settings
	steps    []refundStep
}{
	{"a refund behind one that was refunded", limiter.Settings{Algorithm: limiter.GCRA, Limit: 1000, Window: time.Second, Burst: 200}, []refundStep{
		{0, "reservation", 100, 0, 100}, {0, "reservation", 10, 0, 90}, {0, "refund", 100, 0, 0}, {5000, "take", 50, 0, 145},
		{6000, "refund", 10, 1, 0}, {6000, "left", 0, 0, 150},
	}},
	{"two reservations, the bucket empty between their refunds", bucketOfTen, []refundStep{
		{0, "reservation", 5, 0, 5}, {0, "reservation", 5, 0, 0}, {0, "refund", 5, 0, 0}, {0, "left", 0, 0, 5}, {5 * Sec, "take", 5, 0, 5},
		{5 * Sec, "refund", 5, 1, 0}, {5 * Sec, "left", 0, 0, 5},
	}},
	{"a part before it has drained", bucketOfTen, []refundStep{
		{0, "reservation", 8, 0, 2}, {2 * Sec, "refund", 6, 0, 0}, {2 * Sec, "left", 0, 0, 10},
	}},
	{"a part that has drained in part", bucketOfTen, []refundStep{
		{0, "reservation", 8, 0, 2}, {5 * Sec, "refund", 6, 0, 0}, {5 * Sec, "left", 0, 0, 10}, {5 * Sec, "take", 10, 0, 0},
	}},
	{"a part that has drained", bucketOfTen, []refundStep{
		{0, "reservation", 8, 0, 2}, {8 * Sec, "take", 5, 0, 5}, {8 * Sec, "refund", 6, 0, 0}, {8 * Sec, "left", 0, 0, 5},
	}},
	{"a reservation below a take", bucketOfTen, []refundStep{
		{0, "reservation", 6, 0, 4}, {Sec, "take", 4, 0, 1}, {Sec, "refund", 6, 0, 0}, {Sec, "left", 0, 0, 6},
	}},
	{"a receipt as old as a full bucket drains", bucketOfTen, []refundStep{
		{0, "reservation", 6, 0, 4}, {10 * Sec, "take", 3, 0, 7}, {10 * Sec, "refund", 6, 0, 0}, {10 * Sec, "left", 0, 0, 7},
	}},
	{"a charge after the reservation", bucketOfTen, []refundStep{
		{0, "reservation", 5, 0, 5}, {2 * Sec, "charge", 4, 0, 0}, {2 * Sec, "refund", 5, 0, 0}, {2 * Sec, "left", 0, 0, 6},
		{10 * Sec, "left", 0, 0, 10},
	}},
	{"a charge that saturates", bucketOfTen, []refundStep{
		{0, "reservation", 5, 0, 5}, {0, "charge", limiter.MaxCharge, 0, 0}, {0, "refund", 5, 0, 0}, {4_503_599_616 * Sec, "left", 0, 0, 0},
	}},
	{"counted in milliseconds", limiter.Settings{Algorithm: limiter.TokenBucket, Limit: 86_400, Window: 24 * time.Hour, Burst: 60_000}, []refundStep{
		{0, "reservation", 5, 0, 59_995}, {0, "reservation", 5, 0, 59_990}, {0, "refund", 5, 0, 0}, {5 * Sec, "take", 5, 0, 59_995},
		{5*Sec + 1, "refund", 5, 1, 0}, {5*Sec + 1, "left", 0, 0, 59_995},
	}},
	{"the counter's window before", limiter.Settings{Algorithm: limiter.SlidingWindowCounter, Limit: 10, Window: 10 * time.Second}, []refundStep{
		{0, "reservation", 8, 0, 2}, {12 * Sec, "refund", 6, 0, 0}, {12 * Sec, "left", 0, 0, 9},
	}},
	{"a fixed window that has ended", limiter.Settings{Algorithm: limiter.FixedWindow, Limit: 10, Window: 10 * time.Second}, []refundStep{
		{0, "reservation", 8, 0, 2}, {10 * Sec, "take", 7, 0, 3}, {10 * Sec, "refund", 6, 0, 0}, {10 * Sec, "left", 0, 0, 3},
	}},
	{"a part of a log's entry", logOfTen, []refundStep{
		{0, "reservation", 8, 0, 2}, {5 * Sec, "refund", 6, 0, 0}, {5 * Sec, "left", 0, 0, 8}, {5 * Sec, "take", 8, 0, 0},
		{10 * Sec, "left", 0, 0, 2}, {15 * Sec, "left", 0, 0, 10},
	}},
	{"a part of a log's entry below others", logOfTen, []refundStep{
		{0, "take", 1, 0, 9}, {0, "reservation", 5, 0, 4}, {Sec, "take", 1, 0, 3}, {2 * Sec, "refund", 2, 0, 0}, {2 * Sec, "left", 0, 0, 5},
		{10 * Sec, "left", 0, 0, 9}, {11 * Sec, "left", 0, 0, 10},
	}},
	{"parts of a log's entries of one instant", logOfTen, []refundStep{
		{0, "reservation", 4, 0, 6}, {0, "reservation", 4, 0, 2}, {0, "refund", 3, 0, 0}, {0, "left", 0, 0, 5}, {0, "refund", 4, 1, 0},
		{0, "left", 0, 0, 9}, {0, "take", 9, 0, 0}, {10 * Sec, "left", 0, 0, 10},
	}},
	{"a part of a log's entry that is dead", logOfTen, []refundStep{
		{0, "reservation", 8, 0, 2}, {10 * Sec, "take", 4, 0, 6}, {10 * Sec, "refund", 6, 0, 0}, {10 * Sec, "left", 0, 0, 6},
	}},
}

// logOfTen allows ten units in any ten seconds.
var logOfTen = limiter.Settings{Algorithm: limiter.SlidingWindowLog, Limit: 10, Window: 10 * time.Second}

// bucketOfTen drains a unit a second.
var bucketOfTen = limiter.Settings{Algorithm: limiter.LeakyBucket, Limit: 1, Window: time.Second, Burst: 10}

func refundVectorsHold(t *testing.T, open Open) {
	for _, v := range refundVectors {
		for _, s := range open(t) {
			t.Run(v.name+"/"+s.Name, func(t *testing.T) {
				settings := v.settings
				settings.Name = "refund"
				playRefunds(t, s, NewPolicy(t, settings), v.name, v.steps)
			})
		}
	}
}

// playRefunds plays a vector with refunds on a key.
func playRefunds(t *testing.T, s *Candidate, p *limiter.Policy, key string, steps []refundStep) {
	t.Helper()
	var reserved [][]limiter.Check
	for i, step := range steps {
		s.SetClock(Epoch + step.at)
		checks := []limiter.Check{{Policy: p, Key: limiter.EncodeKey(key), Weight: step.units, Peek: step.units == 0, Refundable: step.do == "reservation"}}
		switch step.do {
		case "refund":
			if of := reserved[step.of]; step.units == of[0].Weight {
				s.Refund(of)
			} else {
				s.SettleCost(of[0], of[0].Weight-step.units)
			}
			continue
		case "charge":
			s.Charge(checks)
			continue
		case "reservation":
			reserved = append(reserved, checks)
		}
		s.Request(t, checks...)
		if got := checks[0].Result; !got.Passes() || got.Remaining != step.remaining {
			t.Errorf("step %d, %s %d at %d µs: got %+v, want %d left", i, step.do, step.units, step.at, got, step.remaining)
		}
	}
}

// refundsOfFlood takes a unit nine times in a bucket of ten. Before each it fills the
// bucket by another take, which is refunded at once. At 9 s the nine units have drained.
func refundsOfFlood(t *testing.T, open Open) {
	p := NewPolicy(t, limiter.Settings{Name: "flood", Algorithm: limiter.GCRA, Limit: 1, Window: time.Second, Burst: 10})
	for _, s := range open(t) {
		s.SetClock(Epoch)
		reserved := func(units int64) []limiter.Check {
			return s.Request(t, limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Weight: units, Refundable: true})
		}
		var units [][]limiter.Check
		for i := range int64(9) {
			filling := reserved(9 - i)
			units = append(units, reserved(1))
			s.Refund(filling)
		}
		s.SetClock(Epoch + 9*Sec)
		passed := int64(0)
		take := func() {
			for limiter.Allowed(reserved(1)) {
				passed++
			}
		}
		take()
		for _, unit := range units {
			s.Refund(unit)
		}
		take()
		if passed != 10 {
			t.Errorf("%s: %d units pass at one instant; want 10", s.Name, passed)
		}
	}
}

// refundOrders returns orders of so many refunds: all of up to five, else some of all kinds.
func refundOrders(n int, random *rand.Rand) (orders [][]int) {
	forward := make([]int, n)
	for i := range forward {
		forward[i] = i
	}
	if n <= 5 {
		return permutations(forward)
	}
	backward, apart := slices.Clone(forward), []int(nil)
	slices.Reverse(backward)
	for first := range 2 {
		for i := first; i < n; i += 2 {
			apart = append(apart, i) // every other one, then those between them
		}
	}
	inward := slices.Clone(apart)
	slices.Reverse(inward[n/2:])
	return append(orders, forward, backward, apart, inward, random.Perm(n), random.Perm(n))
}

func permutations(of []int) (all [][]int) {
	if len(of) < 2 {
		return [][]int{slices.Clone(of)}
	}
	for i := range of {
		rest := slices.Delete(slices.Clone(of), i, i+1)
		for _, p := range permutations(rest) {
			all = append(all, append(p, of[i]))
		}
	}
	return all
}

// refundsInAnyOrder takes units at one instant and refunds them in many orders. Each comes
// back at once.
func refundsInAnyOrder(t *testing.T, open Open) {
	random := rand.New(rand.NewPCG(5, 8))
	for _, s := range open(t) {
		s.SetClock(Epoch)
		for n := 2; n <= 20; n++ {
			p := NewPolicy(t, limiter.Settings{Name: fmt.Sprint("order", n), Algorithm: limiter.GCRA, Limit: 1, Window: time.Second, Burst: int64(10 * n)})
			for _, order := range refundOrders(n, random) {
				key := limiter.EncodeKey(fmt.Sprint(order))
				left, reserved := int64(10*n), make([][]limiter.Check, n)
				for i := range reserved {
					reserved[i] = s.Request(t, limiter.Check{Policy: p, Key: key, Weight: 1 + int64(i)%3, Refundable: true})
					left -= reserved[i][0].Weight
				}
				for _, i := range order {
					s.Refund(reserved[i])
					left += reserved[i][0].Weight
					if got := s.Request(t, limiter.Check{Policy: p, Key: key, Peek: true})[0].Result.Remaining; got != left {
						t.Fatalf("%s: %d units left after refund %d of %v; want %d", s.Name, got, i, order, left)
					}
				}
			}
		}
	}
}
