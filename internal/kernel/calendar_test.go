package kernel_test

import (
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/kernel"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest"
)

// TestCalendar_owed pays back the units of the current period alone.
func TestCalendar_owed(t *testing.T) {
	p := storetest.NewPolicy(t, limiter.Settings{Calendar: "day", Location: storetest.Zone(t, "Europe/Berlin"), Limit: 10})
	k, params := p.Algorithm.Kernel, &p.Params
	at := storetest.Micros(t, "2026-10-25T12:00:00+01:00")
	start, end := storetest.Micros(t, "2026-10-25T00:00:00+02:00"), storetest.Micros(t, "2026-10-26T00:00:00+01:00")
	s := k.Charge(kernel.State{}, at, params, 4)
	owed := k.Owed(s, kernel.State{}, end-1, params)
	assert.ErrorIf(t, len(owed) != 1 || owed[0] != (kernel.Debt{At: start, Amount: 4}), "%+v", owed)
	owed = k.Owed(s, kernel.State{}, end, params)
	assert.ErrorIf(t, len(owed) != 0, "of a period that has ended: %+v", owed)
	for _, test := range []struct{ at, now, units int64 }{
		{start, end - 1, 4}, {start + 3_600_000_000, end - 1, 4}, {start, end, 0}, {end, end - 1, 0},
	} {
		_, units := k.Repay(kernel.State{}, test.now, params, kernel.Debt{At: test.at, Amount: 4})
		assert.ErrorIf(t, units != test.units, "%+v: %d settled", test, units)
	}
	assert.ErrorIf(t, k.Expires(s, at, params) != end,
		"%+v expires at %d, want %d", s.Numbers, k.Expires(s, at, params), end)
}
