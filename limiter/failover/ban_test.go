package failover

import (
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/memory"
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

func TestStores_ban_vectors(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	for _, v := range banVectors {
		p := storetest.NewPolicy(t, limiter.Settings{Name: "ban", Algorithm: limiter.FixedWindow, Limit: v.limit, Window: time.Duration(v.window) * time.Second, Ban: v.ban, BanAfter: v.after})
		for _, s := range []*testStore{memoryStore(), redisStore(t, server)} {
			t.Run(v.name+"/"+s.name, func(t *testing.T) {
				var alone memory.State
				for i, step := range v.steps {
					s.set(step.at * storetest.Sec)
					checks := []limiter.Check{{Policy: p, Key: limiter.EncodeKey(v.name), Weight: step.weight}}
					s.decide(t, checks)
					want := time.Duration(step.wait) * time.Second
					if step.wait < 0 {
						want = limiter.Never
					}
					r := checks[0].Result
					if r.RetryAfter != want || (r.Banned && (r.Remaining != 0 || r.BanLeft > r.RetryAfter)) {
						t.Errorf("step %d, %+v: %+v", i, step, r)
					}
					if twin := alone.Take(p, step.at*storetest.Sec, step.weight); twin != r {
						t.Errorf("step %d, %+v: a State answers %+v, the store %+v", i, step, twin, r)
					}
				}
			})
		}
	}
}

// TestStores_ban_began says which request begins a ban, and what a peek and other weights see of it.
func TestStores_ban_began(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	p := storetest.NewPolicy(t, limiter.Settings{Name: "began", Algorithm: limiter.FixedWindow, Limit: 3, Window: 10 * time.Second, Ban: banned(30)})
	for _, s := range []*testStore{memoryStore(), redisStore(t, server)} {
		one := func(weight int64, peek bool) limiter.Result {
			checks := []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k"), Weight: weight, Peek: peek}}
			s.decide(t, checks)
			return checks[0].Result
		}
		s.set(1000 * storetest.Sec)
		one(2, false)
		if r := one(2, false); !r.BanBegins || r.Remaining != 0 || r.BanLeft != 30*time.Second || r.ResetAfter != 30*time.Second {
			t.Errorf("%s: the denial that bans: %+v", s.name, r)
		}
		s.set(1001 * storetest.Sec)
		want := limiter.Result{RetryAfter: 29 * time.Second, ResetAfter: 29 * time.Second, Banned: true, BanLeft: 29 * time.Second}
		if r := one(1, false); r != want {
			t.Errorf("%s: a banned client gets %+v, want %+v", s.name, r, want)
		}
		want.RetryAfter = 0
		if r := one(1, true); r != want {
			t.Errorf("%s: a peek sees %+v, want %+v", s.name, r, want)
		}
		if r := one(4, false); r.RetryAfter != limiter.Never || r.Banned {
			t.Errorf("%s: above the capacity: %+v", s.name, r)
		}
	}
}

// TestStores_ban_denied_with_others has two policies: only those that deny by their own count are
// offended, and none while a client of the request is banned.
func TestStores_ban_denied_with_others(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	narrow := storetest.NewPolicy(t, limiter.Settings{Name: "narrow", Algorithm: limiter.FixedWindow, Limit: 1, Window: 10 * time.Second, Ban: banned(30)})
	wide := storetest.NewPolicy(t, limiter.Settings{Name: "wide", Algorithm: limiter.FixedWindow, Limit: 2, Window: 10 * time.Second, Ban: banned(60)})
	for _, s := range []*testStore{memoryStore(), redisStore(t, server)} {
		both := func(at int64) (a, b limiter.Result) {
			s.set(at * storetest.Sec)
			checks := []limiter.Check{{Policy: narrow, Key: limiter.EncodeKey("k")}, {Policy: wide, Key: limiter.EncodeKey("k")}}
			s.decide(t, checks)
			return checks[0].Result, checks[1].Result
		}
		both(1000)
		if a, b := both(1000); !a.BanBegins || b.Banned || b.Remaining != 1 || !b.Passes() {
			t.Errorf("%s: %+v and %+v; want the narrow one to ban and the wide one unchanged", s.name, a, b)
		}
		s.decide(t, []limiter.Check{{Policy: wide, Key: limiter.EncodeKey("k")}}) // uses it up
		if a, b := both(1001); !a.Banned || a.BanBegins || b.Banned || b.Passes() {
			t.Errorf("%s: %+v and %+v; want no offense while the client is banned", s.name, a, b)
		}
		if _, b := both(1030); b.Banned || !b.Passes() {
			t.Errorf("%s: %+v", s.name, b)
		}
	}
}

// TestStores_ban_counted has a policy that refunds: denials behind units that were refunded are no
// offenses.
func TestStores_ban_counted(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	p := storetest.NewPolicy(t, limiter.Settings{Name: "counted", Algorithm: limiter.SlidingWindowLog, Limit: 5, Window: 60 * time.Second, Ban: banned(300), Refunds: true})
	for _, s := range []*testStore{memoryStore(), redisStore(t, server)} {
		s.set(storetest.Epoch)
		take := func() []limiter.Check {
			checks := []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k"), Refundable: true}}
			s.decide(t, checks)
			return checks
		}
		confirm := func(checks []limiter.Check) {
			keepAll(s.Store, checks, s.source)
			s.settle()
		}
		var taken [][]limiter.Check
		for range 5 {
			taken = append(taken, take())
		}
		if r := take()[0].Result; r.Passes() || r.Banned {
			t.Errorf("%s: parallel requests that may all be refunded: %+v", s.name, r)
		}
		s.refund(taken[4])
		for _, checks := range taken[:4] {
			confirm(checks)
		}
		if r := take()[0].Result; !r.Passes() {
			t.Errorf("%s: %+v", s.name, r)
		}
		if r := take()[0].Result; r.Passes() || r.Banned {
			t.Errorf("%s: four units count of five: %+v", s.name, r)
		}
		confirm(taken[4]) // that of the take above
		if r := take()[0].Result; !r.BanBegins {
			t.Errorf("%s: five units count: %+v", s.name, r)
		}
	}
}

// TestStores_ban_counted_elsewhere uses a policy that refunds in a handler that does not, whose units
// count at once, and charges it.
func TestStores_ban_counted_elsewhere(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	p := storetest.NewPolicy(t, limiter.Settings{Name: "elsewhere", Algorithm: limiter.GCRA, Limit: 4, Window: 60 * time.Second, Ban: banned(300), Refunds: true})
	for _, s := range []*testStore{memoryStore(), redisStore(t, server)} {
		s.set(storetest.Epoch)
		check := []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k"), Weight: 2}}
		s.decide(t, check)
		s.settle()
		s.charge(check)
		if s.decide(t, check); !check[0].Result.BanBegins {
			t.Errorf("%s: %+v", s.name, check[0].Result)
		}
	}
}

// TestMemory_ban_full has room for a count and none for a ban: denials stay denials.
func TestMemory_ban_full(t *testing.T) {
	t.Parallel()
	p, m := hourBan(t, "full", 1), memory.New()
	m.Limit(1, nil)
	decide := func() limiter.Result {
		result, err := limiter.Allow(t.Context(), m, p, "k")
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	for i, want := range []bool{true, true, false, false} {
		if r := decide(); r.Passes() != want || r.Banned {
			t.Errorf("request %d: %+v", i, r)
		}
	}
	m.Limit(2, nil)
	if r := decide(); !r.BanBegins {
		t.Errorf("with room: %+v", r)
	}
}
