package memory

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/kernel"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/storetest"
)

// hourBan returns a policy of two units a month that bans for an hour at the first denial.
func hourBan(t *testing.T) *limiter.Policy {
	t.Helper()
	return storetest.NewPolicy(t, limiter.Settings{Algorithm: limiter.FixedWindow, Limit: 2, Window: 30 * 24 * time.Hour, Ban: []time.Duration{time.Hour}})
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
		redistest.ErrorIf(t, m.Len() > bound || m.Len() != counted(),
			"%s: %d keys are counted, and %d are there; want at most %d", name, m.Len(), counted(), bound)
	}
	flood("first")
	n := int64(len(m.Banned("bound")))
	redistest.ErrorIf(t, n == 0 || n > bound, "%d clients are banned", n)
	m.UnbanAll("bound")
	if n := len(m.Banned("bound")); n != 0 || m.Len() != counted() {
		t.Errorf("%d clients are banned, %d keys of %d counted", n, counted(), m.Len())
	}
	flood("second")
	now += 10 * int64(time.Hour/time.Microsecond)
	m.Prune()
	redistest.ErrorIf(t, m.Len() != 0, "%d keys are left when all has ended", m.Len())
}

// TestMemory_ban_answers has answers that say nothing of a ban follow the one that tells of it: one that was decided
// before it, by the time of Redis, and one to a request above the capacity.
func TestMemory_ban_answers(t *testing.T) {
	t.Parallel()
	p, m := hourBan(t), New()
	banned := limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Ticket: kernel.Keep(kernel.Kept{AsOf: 10}), Result: limiter.Result{RetryAfter: time.Hour, Banned: true, BanLeft: time.Hour}}
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
		later := limiter.Check{Policy: p, Key: banned.Key, Ticket: kernel.Keep(kernel.Kept{AsOf: after.asOf}), Result: after.answer}
		m.Remember(&later)
		got := storetest.Decide(t, m, limiter.Check{Policy: p, Key: banned.Key})[0].Result
		redistest.ErrorIf(t, got.Banned != after.banned, "after %+v: %+v", after, got)
	}
}

// TestMemory_ban_full has room for a count and none for a ban: denials stay denials.
func TestMemory_ban_full(t *testing.T) {
	t.Parallel()
	p, m := hourBan(t), New()
	m.Limit(1, nil)
	decide := func() limiter.Result {
		result, err := limiter.Allow(t.Context(), m, p, "k")
		redistest.Must(t, err)
		return result
	}
	for i, want := range []bool{true, true, false, false} {
		r := decide()
		redistest.ErrorIf(t, r.Passes() != want || r.Banned, "request %d: %+v", i, r)
	}
	m.Limit(2, nil)
	r := decide()
	redistest.ErrorIf(t, !r.BanBegins, "with room: %+v", r)
}
