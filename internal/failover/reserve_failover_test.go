package failover

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/memory"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redis"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest/stores"
)

// TestFailover_reserve plays lesser requests, which are denied for the sake of others: these still get what was left to
// them. An outage goes on from what was used, without what was left to others.
func TestFailover_reserve(t *testing.T) {
	t.Parallel()
	var scenes []*scene
	for _, algorithm := range limiter.Algorithms() {
		small, large := []*limiter.Policy{storetest.DayPolicy(t, "cached", algorithm, 5)}, []*limiter.Policy{storetest.DayPolicy(t, "outage", algorithm, 20)}
		outage := func(fraction float64, lesser, others int) *scene {
			return &scene{name: fmt.Sprint("outage by ", algorithm, fraction), policies: large, options: Behavior{LocalFraction: fraction, ForgiveOutages: true}, steps: "a reserve 10 take 4 left 6 away " +
				strings.Repeat("take 1 ", lesser) + "withheld 1 reserve 0 " + strings.Repeat("take 1 ", others) + "denied 1"}
		}
		scenes = append(scenes, outage(1, 6, 10), outage(0.5, 3, 5), &scene{name: "deny cache by " + algorithm, policies: small, options: Behavior{DenyAge: MaxDenyAge}, recalls: true,
			steps: "a reserve 2 take 3 withheld 1 by redis left 0 withheld 1 by deny_cache withheld 1 by deny_cache left 0 reserve 1 take 1 left 0 reserve 0 take 1 left 0 denied 1 left 0"})
	}
	playScenes(t, scenes)
}

// TestFailover_reserve_Unused decides in an outage by periods and by a fraction of the limits: what is left for others
// is not used.
func TestFailover_reserve_Unused(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	for _, fraction := range []float64{1, 0.5} {
		for _, settings := range []limiter.Settings{{Name: "day", Calendar: "day", Location: time.UTC}, {Name: "24h", Algorithm: limiter.FixedWindow, Window: storetest.LongWindow(0)}} {
			settings.Limit = 100
			p, f := storetest.NewPolicy(t, settings), New(stores.Open(t, server), memory.New(), Behavior{LocalFraction: fraction})
			keepOpen(f.shared)
			if got := storetest.Decide(t, f, storetest.Leaving(p, 1, 20))[0]; float64(got.Unused()) != 100*fraction-1 || float64(got.Result.Remaining) != 80*fraction-1 {
				t.Errorf("%s, fraction %v: %d of %d remain", p.Name(), fraction, got.Result.Remaining, got.Unused())
			}
		}
	}
}

// TestFailover_reserve_scaleDown has a tenth of a limit enforced in an outage. What can pass the whole limit
// can pass the tenth, and nothing else can.
func TestFailover_reserve_scaleDown(t *testing.T) {
	t.Parallel()
	queue := storetest.NewPolicy(t, limiter.Settings{Name: "queue", Algorithm: limiter.LeakyBucket, Limit: 95, Window: 10 * time.Second, Burst: 100, MaxDelay: new(2 * time.Second)})
	window := storetest.DayPolicy(t, "window", limiter.FixedWindow, 95)
	for _, p := range []*limiter.Policy{queue, window} {
		most := p.MostReserve()
		for _, test := range []struct {
			weight, reserve int64
			never           bool
		}{
			{1, 1, false}, {1, most, false}, {1, most + 1, true}, {p.Capacity() - most, most, false}, {p.Capacity() - most + 1, most, true},
			{2, 19, false}, {p.Capacity(), 1, true}, {p.Capacity() + 1, 0, true}, {p.Capacity(), 0, false}, {1, 1 << 62, true}, {1<<63 - 1, 1 << 62, true},
		} {
			f := New(new(redis.Store), memory.New(), Behavior{LocalFraction: 0.1, ForgiveOutages: true})
			checks := []limiter.Check{storetest.Leaving(p, test.weight, test.reserve)}
			assert.NoError(f.Fallback(limiter.FailLocal, checks, limiter.ErrAlreadyTimedOut))(t)
			if r := checks[0].Result; r.Passes() == test.never || (r.RetryAfter == limiter.Never) != test.never {
				t.Errorf("%v: %d units, %d left: %+v; never: %v", p.Settings, test.weight, test.reserve, r, test.never)
			}
			peek := storetest.Leaving(p, 1, test.reserve)
			peek.Peek = true
			if source := f.PeekLocal(&peek); source != limiter.SourceFallback || !peek.Result.Passes() || peek.Result.Remaining < 0 {
				t.Errorf("%v: a look that leaves %d: %+v", p.Settings, test.reserve, peek.Result)
			}
		}
	}
}
