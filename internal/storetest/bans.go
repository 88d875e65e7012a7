package storetest

import (
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// banStep is a request in a test of bans: at a second, of a weight, and the seconds that it waits.
type banStep struct{ at, weight, wait int64 }

func banned(seconds ...int) (durations []time.Duration) {
	for _, n := range seconds {
		durations = append(durations, time.Duration(n)*time.Second)
	}
	return durations
}

// banVectors are hand-made sequences in a fixed window.
var banVectors = []struct {
	name          string
	limit, window int64
	ban           []time.Duration
	after         int
	steps         []banStep
}{
	{"escalates", 2, 10, banned(30, 60), 1, []banStep{{1000, 1, 0}, {1000, 1, 0}, {1001, 1, 30}, {1015, 1, 16}, {1031, 1, 0}, {1031, 1, 0}, {1031, 1, 60}}},
	{"after three denials", 2, 10, banned(30), 3, []banStep{{1000, 2, 0}, {1001, 1, 9}, {1002, 1, 8}, {1003, 1, 30}, {1033, 1, 0}}},
	{"denials of another window", 2, 10, banned(30), 3, []banStep{{1000, 2, 0}, {1005, 1, 5}, {1008, 1, 2}, {1012, 2, 0}, {1016, 1, 4}, {1017, 1, 3}, {1018, 1, 30}}},
	{"longer wait than ban", 1, 60, banned(5), 1, []banStep{{960, 1, 0}, {961, 1, 59}, {966, 1, 54}}},
	{"forgotten", 1, 10, banned(20, 40), 1, []banStep{{1000, 1, 0}, {1001, 1, 20}, {1081, 1, 0}, {1082, 1, 20}}},
	{"second offense", 1, 10, banned(20, 40), 1, []banStep{{1001, 1, 0}, {1001, 1, 20}, {1025, 1, 0}, {1026, 1, 40}}},
	{"above the capacity", 2, 10, banned(30), 1, []banStep{{1000, 3, -1}, {1000, 2, 0}}},
}

func banVectorsHold(t *testing.T, open Open) {
	for _, v := range banVectors {
		p := NewPolicy(t, limiter.Settings{Name: "ban", Algorithm: limiter.FixedWindow, Limit: v.limit, Window: time.Duration(v.window) * time.Second, Ban: v.ban, BanAfter: v.after})
		for _, s := range open(t) {
			t.Run(v.name+"/"+s.Name, func(t *testing.T) {
				for i, step := range v.steps {
					s.SetClock(step.at * Sec)
					checks := s.Request(t, limiter.Check{Policy: p, Key: limiter.EncodeKey(v.name), Weight: step.weight})
					want := time.Duration(step.wait) * time.Second
					if step.wait < 0 {
						want = limiter.Never
					}
					r := checks[0].Result
					if r.RetryAfter != want || (r.Banned && (r.Remaining != 0 || r.BanLeft > r.RetryAfter)) {
						t.Errorf("step %d, %+v: %+v", i, step, r)
					}
				}
			})
		}
	}
}

// bansBegin says which request begins a ban, and what a peek and other weights see of it.
func bansBegin(t *testing.T, open Open) {
	p := NewPolicy(t, limiter.Settings{Name: "began", Algorithm: limiter.FixedWindow, Limit: 3, Window: 10 * time.Second, Ban: banned(30)})
	for _, s := range open(t) {
		one := func(weight int64, peek bool) limiter.Result {
			return s.Request(t, limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Weight: weight, Peek: peek})[0].Result
		}
		s.SetClock(1000 * Sec)
		one(2, false)
		if r := one(2, false); !r.BanBegins || r.Remaining != 0 || r.BanLeft != 30*time.Second || r.ResetAfter != 30*time.Second {
			t.Errorf("%s: the denial that bans: %+v", s.Name, r)
		}
		s.SetClock(1001 * Sec)
		want := limiter.Result{RetryAfter: 29 * time.Second, ResetAfter: 29 * time.Second, Banned: true, BanLeft: 29 * time.Second}
		if r := one(1, false); r != want {
			t.Errorf("%s: a banned client gets %+v, want %+v", s.Name, r, want)
		}
		want.RetryAfter = 0
		if r := one(1, true); r != want {
			t.Errorf("%s: a peek sees %+v, want %+v", s.Name, r, want)
		}
		if r := one(4, false); r.RetryAfter != limiter.Never || r.Banned {
			t.Errorf("%s: above the capacity: %+v", s.Name, r)
		}
	}
}

// bansDenyWithOthers has two policies: only those that deny by their own count are
// offended, and none while a client of the request is banned.
func bansDenyWithOthers(t *testing.T, open Open) {
	narrow := NewPolicy(t, limiter.Settings{Name: "narrow", Algorithm: limiter.FixedWindow, Limit: 1, Window: 10 * time.Second, Ban: banned(30)})
	wide := NewPolicy(t, limiter.Settings{Name: "wide", Algorithm: limiter.FixedWindow, Limit: 2, Window: 10 * time.Second, Ban: banned(60)})
	for _, s := range open(t) {
		both := func(at int64) (a, b limiter.Result) {
			s.SetClock(at * Sec)
			checks := s.Request(t, limiter.Check{Policy: narrow, Key: limiter.EncodeKey("k")}, limiter.Check{Policy: wide, Key: limiter.EncodeKey("k")})
			return checks[0].Result, checks[1].Result
		}
		both(1000)
		if a, b := both(1000); !a.BanBegins || b.Banned || b.Remaining != 1 || !b.Passes() {
			t.Errorf("%s: %+v and %+v; want the narrow one to ban and the wide one unchanged", s.Name, a, b)
		}
		s.Request(t, limiter.Check{Policy: wide, Key: limiter.EncodeKey("k")}) // uses it up
		if a, b := both(1001); !a.Banned || a.BanBegins || b.Banned || b.Passes() {
			t.Errorf("%s: %+v and %+v; want no offense while the client is banned", s.Name, a, b)
		}
		if _, b := both(1030); b.Banned || !b.Passes() {
			t.Errorf("%s: %+v", s.Name, b)
		}
	}
}

// bansCount has a policy that refunds: denials behind units that were refunded are no
// offenses.
func bansCount(t *testing.T, open Open) {
	p := NewPolicy(t, limiter.Settings{Name: "counted", Algorithm: limiter.SlidingWindowLog, Limit: 5, Window: 60 * time.Second, Ban: banned(300), Refunds: true})
	for _, s := range open(t) {
		s.SetClock(Epoch)
		take := func() []limiter.Check {
			return s.Request(t, limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Refundable: true})
		}
		var taken [][]limiter.Check
		for range 5 {
			taken = append(taken, take())
		}
		if r := take()[0].Result; r.Passes() || r.Banned {
			t.Errorf("%s: parallel requests that may all be refunded: %+v", s.Name, r)
		}
		s.Refund(taken[4])
		for _, checks := range taken[:4] {
			s.Keep(checks)
		}
		if r := take()[0].Result; !r.Passes() {
			t.Errorf("%s: %+v", s.Name, r)
		}
		if r := take()[0].Result; r.Passes() || r.Banned {
			t.Errorf("%s: four units count of five: %+v", s.Name, r)
		}
		s.Keep(taken[4]) // that of the take above
		if r := take()[0].Result; !r.BanBegins {
			t.Errorf("%s: five units count: %+v", s.Name, r)
		}
	}
}

// CountsWhatStays holds stores to vectors of units that stay because their handler refunds nothing, though the policy
// does. Failovers alone have them count for bans.
func CountsWhatStays(t *testing.T, open Open) {
	t.Run("ban_counted_elsewhere", func(t *testing.T) { bansCountElsewhere(t, open) })
	t.Run("ban_counted_once", func(t *testing.T) { bansCountOnce(t, open) })
}

// bansCountElsewhere uses a policy that refunds in a handler that does not, whose units
// count at once, and charges it.
func bansCountElsewhere(t *testing.T, open Open) {
	p := NewPolicy(t, limiter.Settings{Name: "elsewhere", Algorithm: limiter.GCRA, Limit: 4, Window: 60 * time.Second, Ban: banned(300), Refunds: true})
	for _, s := range open(t) {
		s.SetClock(Epoch)
		check := s.Request(t, limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Weight: 2})
		s.Charge(check)
		if s.Request(t, check...); !check[0].Result.BanBegins {
			t.Errorf("%s: %+v", s.Name, check[0].Result)
		}
	}
}

// bansCountOnce has a cost of 9 of which 5 were taken for good: nine units count for bans and not
// fourteen, so that a denial behind a unit that may be refunded is no offense.
func bansCountOnce(t *testing.T, open Open) {
	for _, s := range open(t) {
		s.SetClock(Epoch)
		p := NewPolicy(t, limiter.Settings{Name: "once", Algorithm: limiter.FixedWindow, Limit: 10, Window: time.Hour, Ban: []time.Duration{time.Minute}, Refunds: true})
		key := limiter.EncodeKey("k")
		s.SettleCost(Decide(t, s, limiter.Check{Policy: p, Key: key, Weight: 5})[0], 9)
		s.Request(t, limiter.Check{Policy: p, Key: key, Refundable: true})
		if denied := s.Request(t, limiter.Check{Policy: p, Key: key, Refundable: true})[0].Result; denied.Passes() || denied.Banned {
			t.Errorf("%s: %+v; want it denied and not banned", s.Name, denied)
		}
	}
}
