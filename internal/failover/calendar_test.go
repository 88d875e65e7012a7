package failover

import (
	"context"
	"fmt"
	"testing"
	"time"
	_ "time/tzdata" // zones of machines without a table

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/memory"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest/stores"
)

// TestCalendar_outage takes units in an outage on a node whose clock is wrong. It goes on with the quota that
// it saw last, in the period that Redis was in, and what it admits is settled afterwards.
func TestCalendar_outage(t *testing.T) {
	const day = 24 * time.Hour
	server := redistest.Shared(t)
	begins := storetest.Micros(t, "2026-06-30T10:00:00+02:00")
	for _, ahead := range []time.Duration{0, time.Hour, 3 * day, -3 * day, 400 * day} {
		for _, fraction := range []float64{0, 0.5} {
			t.Run(fmt.Sprint(ahead, " ", fraction), func(t *testing.T) {
				ctx := context.Background()
				client := server.Client(t)
				client.FlushDB(ctx)
				r := stores.OpenWithin(t, server, stores.Patience, limiter.KeyFormat{Prefix: "t"})
				r.Scripts.Clock = stores.TestClock
				local := begins + ahead.Microseconds()
				f := New(r, memory.NewOnClock(func() int64 { return local }), Behavior{LocalFraction: fraction})
				n := r.Topology.AnyNode
				move := func(to time.Duration) {
					client.Set(ctx, "test:clock", begins+to.Microseconds(), 0)
					local = begins + ahead.Microseconds() + to.Microseconds()
					storetest.SetAhead(&n.Clock, -ahead)
				}
				p := storetest.NewPolicy(t, limiter.Settings{Calendar: "month", Location: storetest.Zone(t, "Europe/Berlin"), Limit: 10})
				decide := func(reason error) limiter.Result {
					checks := []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k"), Weight: 1}}
					var err error
					if reason == nil {
						_, err = f.Decide(ctx, checks)
					} else {
						_, err = f.Fallback(limiter.FailLocal, checks, reason)
					}
					assert.Must(t, err)
					return checks[0].Result
				}
				move(0)
				for range 4 {
					decide(nil)
				}
				limit := int64(10)
				left := int64(6)
				if fraction > 0 {
					limit, left = 5, 3 // the units used count by the same fraction
				}
				ends := 14 * time.Hour
				move(time.Hour)
				if got := decide(limiter.ErrOutage); got.Remaining != left-1 || (got.ResetAfter-(ends-time.Hour)).Abs() > time.Second {
					t.Errorf("in the outage: %+v, want %d left for %v", got, left-1, ends-time.Hour)
				}
				move(ends - time.Microsecond)
				got := decide(limiter.ErrOutage)
				assert.ErrorIf(t, got.Remaining != left-2, "at the month's end: %+v, want %d left", got, left-2)
				move(ends + 2*time.Second)
				if got := decide(limiter.ErrOutage); got.Remaining != limit-1 || got.ResetAfter < 30*day {
					t.Errorf("in the next month: %+v, want %d left", got, limit-1)
				}
				// The unit of the outage is settled ahead of it.
				got = decide(nil)
				assert.ErrorIf(t, got.Remaining != 8, "afterwards: %+v, want 8 left", got)
			})
		}
	}
}
