package failover

import (
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/storetest"
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
		{0, "reservation", 5, 0, 5}, {0, "reservation", 5, 0, 0}, {0, "refund", 5, 0, 0}, {0, "left", 0, 0, 5}, {5 * storetest.Sec, "take", 5, 0, 5},
		{5 * storetest.Sec, "refund", 5, 1, 0}, {5 * storetest.Sec, "left", 0, 0, 5},
	}},
	{"a part before it has drained", bucketOfTen, []refundStep{
		{0, "reservation", 8, 0, 2}, {2 * storetest.Sec, "refund", 6, 0, 0}, {2 * storetest.Sec, "left", 0, 0, 10},
	}},
	{"a part that has drained in part", bucketOfTen, []refundStep{
		{0, "reservation", 8, 0, 2}, {5 * storetest.Sec, "refund", 6, 0, 0}, {5 * storetest.Sec, "left", 0, 0, 10}, {5 * storetest.Sec, "take", 10, 0, 0},
	}},
	{"a part that has drained", bucketOfTen, []refundStep{
		{0, "reservation", 8, 0, 2}, {8 * storetest.Sec, "take", 5, 0, 5}, {8 * storetest.Sec, "refund", 6, 0, 0}, {8 * storetest.Sec, "left", 0, 0, 5},
	}},
	{"a reservation below a take", bucketOfTen, []refundStep{
		{0, "reservation", 6, 0, 4}, {storetest.Sec, "take", 4, 0, 1}, {storetest.Sec, "refund", 6, 0, 0}, {storetest.Sec, "left", 0, 0, 6},
	}},
	{"a receipt as old as a full bucket drains", bucketOfTen, []refundStep{
		{0, "reservation", 6, 0, 4}, {10 * storetest.Sec, "take", 3, 0, 7}, {10 * storetest.Sec, "refund", 6, 0, 0}, {10 * storetest.Sec, "left", 0, 0, 7},
	}},
	{"a charge after the reservation", bucketOfTen, []refundStep{
		{0, "reservation", 5, 0, 5}, {2 * storetest.Sec, "charge", 4, 0, 0}, {2 * storetest.Sec, "refund", 5, 0, 0}, {2 * storetest.Sec, "left", 0, 0, 6},
		{10 * storetest.Sec, "left", 0, 0, 10},
	}},
	{"a charge that saturates", bucketOfTen, []refundStep{
		{0, "reservation", 5, 0, 5}, {0, "charge", limiter.MaxCharge, 0, 0}, {0, "refund", 5, 0, 0}, {4_503_599_616 * storetest.Sec, "left", 0, 0, 0},
	}},
	{"counted in milliseconds", limiter.Settings{Algorithm: limiter.TokenBucket, Limit: 86_400, Window: 24 * time.Hour, Burst: 60_000}, []refundStep{
		{0, "reservation", 5, 0, 59_995}, {0, "reservation", 5, 0, 59_990}, {0, "refund", 5, 0, 0}, {5 * storetest.Sec, "take", 5, 0, 59_995},
		{5*storetest.Sec + 1, "refund", 5, 1, 0}, {5*storetest.Sec + 1, "left", 0, 0, 59_995},
	}},
	{"the counter's window before", limiter.Settings{Algorithm: limiter.SlidingWindowCounter, Limit: 10, Window: 10 * time.Second}, []refundStep{
		{0, "reservation", 8, 0, 2}, {12 * storetest.Sec, "refund", 6, 0, 0}, {12 * storetest.Sec, "left", 0, 0, 9},
	}},
	{"a fixed window that has ended", limiter.Settings{Algorithm: limiter.FixedWindow, Limit: 10, Window: 10 * time.Second}, []refundStep{
		{0, "reservation", 8, 0, 2}, {10 * storetest.Sec, "take", 7, 0, 3}, {10 * storetest.Sec, "refund", 6, 0, 0}, {10 * storetest.Sec, "left", 0, 0, 3},
	}},
	{"a part of a log's entry", logOfTen, []refundStep{
		{0, "reservation", 8, 0, 2}, {5 * storetest.Sec, "refund", 6, 0, 0}, {5 * storetest.Sec, "left", 0, 0, 8}, {5 * storetest.Sec, "take", 8, 0, 0},
		{10 * storetest.Sec, "left", 0, 0, 2}, {15 * storetest.Sec, "left", 0, 0, 10},
	}},
	{"a part of a log's entry below others", logOfTen, []refundStep{
		{0, "take", 1, 0, 9}, {0, "reservation", 5, 0, 4}, {storetest.Sec, "take", 1, 0, 3}, {2 * storetest.Sec, "refund", 2, 0, 0}, {2 * storetest.Sec, "left", 0, 0, 5},
		{10 * storetest.Sec, "left", 0, 0, 9}, {11 * storetest.Sec, "left", 0, 0, 10},
	}},
	{"parts of a log's entries of one instant", logOfTen, []refundStep{
		{0, "reservation", 4, 0, 6}, {0, "reservation", 4, 0, 2}, {0, "refund", 3, 0, 0}, {0, "left", 0, 0, 5}, {0, "refund", 4, 1, 0},
		{0, "left", 0, 0, 9}, {0, "take", 9, 0, 0}, {10 * storetest.Sec, "left", 0, 0, 10},
	}},
	{"a part of a log's entry that is dead", logOfTen, []refundStep{
		{0, "reservation", 8, 0, 2}, {10 * storetest.Sec, "take", 4, 0, 6}, {10 * storetest.Sec, "refund", 6, 0, 0}, {10 * storetest.Sec, "left", 0, 0, 6},
	}},
}

// logOfTen allows ten units in any ten seconds.
var logOfTen = limiter.Settings{Algorithm: limiter.SlidingWindowLog, Limit: 10, Window: 10 * time.Second}

// bucketOfTen drains a unit a second.
var bucketOfTen = limiter.Settings{Algorithm: limiter.LeakyBucket, Limit: 1, Window: time.Second, Burst: 10}

func TestStores_Refund_vectors(t *testing.T) {
	server := redistest.Shared(t)
	for _, v := range refundVectors {
		for _, s := range []*testStore{memoryStore(), redisStore(t, server)} {
			t.Run(v.name+"/"+s.name, func(t *testing.T) {
				settings := v.settings
				settings.Name = "refund"
				playRefunds(t, s, storetest.NewPolicy(t, settings), v.name, v.steps)
			})
		}
	}
}

// playRefunds plays a vector with refunds on a key.
func playRefunds(t *testing.T, s *testStore, p *limiter.Policy, key string, steps []refundStep) {
	t.Helper()
	var reserved [][]limiter.Check
	for i, step := range steps {
		s.set(storetest.Epoch + step.at)
		checks := []limiter.Check{{Policy: p, Key: limiter.EncodeKey(key), Weight: step.units, Peek: step.units == 0, Refundable: step.do == "reservation"}}
		switch step.do {
		case "refund":
			if of := reserved[step.of]; step.units == of[0].Weight {
				s.refund(of)
			} else {
				s.settleCost(of[0], of[0].Weight-step.units)
			}
			continue
		case "charge":
			s.charge(checks)
			continue
		case "reservation":
			reserved = append(reserved, checks)
		}
		s.decide(t, checks)
		if got := checks[0].Result; !got.Passes() || got.Remaining != step.remaining {
			t.Errorf("step %d, %s %d at %d µs: got %+v, want %d left", i, step.do, step.units, step.at, got, step.remaining)
		}
	}
}

// TestStores_Refund_flood takes a unit nine times in a bucket of ten. Before each it fills the
// bucket by another take, which is refunded at once. At 9 s the nine units have drained.
func TestStores_Refund_flood(t *testing.T) {
	p := storetest.NewPolicy(t, limiter.Settings{Name: "flood", Algorithm: limiter.GCRA, Limit: 1, Window: time.Second, Burst: 10})
	for _, s := range []*testStore{memoryStore(), redisStore(t, redistest.Shared(t))} {
		s.set(storetest.Epoch)
		reserved := func(units int64) []limiter.Check {
			checks := []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k"), Weight: units, Refundable: true}}
			s.decide(t, checks)
			return checks
		}
		var units [][]limiter.Check
		for i := range int64(9) {
			filling := reserved(9 - i)
			units = append(units, reserved(1))
			s.refund(filling)
		}
		s.set(storetest.Epoch + 9*storetest.Sec)
		passed := int64(0)
		take := func() {
			for limiter.Allowed(reserved(1)) {
				passed++
			}
		}
		take()
		for _, unit := range units {
			s.refund(unit)
		}
		take()
		if passed != 10 {
			t.Errorf("%s: %d units pass at one instant; want 10", s.name, passed)
		}
	}
}

// TestRedis_Refund_lifetime has a state with a serial, and one with a hole, live as long as a full bucket drains after
// every take, and others as long as they drain.
func TestRedis_Refund_lifetime(t *testing.T) {
	server := redistest.Shared(t)
	client, s := server.Client(t), redisStore(t, server)
	p := storetest.NewPolicy(t, limiter.Settings{Name: "lifetime", Algorithm: limiter.GCRA, Limit: 1, Window: time.Second, Burst: 10})
	const grace = time.Hour // of the test's clock
	holds := func(size int64, lives time.Duration) {
		t.Helper()
		name := "t:{k}:lifetime:g1s"
		got, ttl := client.StrLen(t.Context(), name).Val(), client.PTTL(t.Context(), name).Val()-grace
		if got != size || ttl > lives || ttl < lives-500*time.Millisecond {
			t.Errorf("%d bytes that live for %v; want %d and %v", got, ttl, size, lives)
		}
	}
	reserved := []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k"), Weight: 2, Refundable: true}}
	play(t, s, storetest.Epoch, p, 1)
	holds(16, time.Second)
	s.decide(t, reserved)
	holds(24, 10*time.Second)
	play(t, s, storetest.Epoch, p, 1)
	holds(24, 10*time.Second)
	s.charge([]limiter.Check{{Policy: p, Key: limiter.EncodeKey("k"), Weight: 10}})
	holds(24, 14*time.Second)
	s.refund(reserved)
	holds(40, 14*time.Second)
}
