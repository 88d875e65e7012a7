package gate

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/dial"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/memory"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redis"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
)

// TestChallenge_bound plays random schedules of a client that brings any pass at any time. In no window it gets more
// than its limit and that of each pass, on either store.
func TestChallenge_bound(t *testing.T) {
	t.Parallel()
	const window = time.Minute
	now := int64(1e15)
	client, err := dial.New(dial.Connection{Addresses: []string{redistest.Start(t).Addr}, Timeout: 10 * time.Second})
	assert.Must(t, err)
	remote := redis.New(client, redis.Setup{})
	t.Cleanup(func() { _ = remote.Close() }) // the test is over
	for name, test := range map[string]struct {
		store limiter.Store
		pause int64 // the longest, in microseconds; 0: on Redis's own clock, within one window
		steps int
	}{
		"memory": {memory.NewOnClock(func() int64 { return now }), 2 * window.Microseconds() / 10, assert.Rounds(50_000, 1_000_000)},
		"redis":  {remote, 0, assert.Rounds(5_000, 1_000_000)},
	} {
		t.Run(name, func(t *testing.T) {
			reached, play := 0, assert.NewPlay(t, 0)
			seed, alone := assert.SeedAlone()
			for schedule, steps := seed, 0; steps < test.steps && (!alone || schedule == seed); schedule++ {
				play.Begin(schedule)
				random := rand.New(rand.NewPCG(schedule, 1))
				limit, passes := 1+random.Int64N(6), 1+random.IntN(5)
				challenge := rule.Challenge{Passes: passes, Limit: limit + random.Int64N(3)}
				policy, err := limiter.NewPolicy(limiter.Settings{Name: "bound", Limit: limit, Window: window, Algorithm: "sliding_window_log"})
				assert.Must(t, err)
				bound := limit + int64(passes)*challenge.Limit
				variants, key := rule.NewVariants(policy), limiter.EncodeKey(strconv.FormatUint(schedule, 10))
				keys, admitted := map[limiter.EncodedKey]bool{}, []int64(nil)
				for range 20 + random.IntN(200) {
					steps++
					if test.pause > 0 && random.IntN(4) == 0 {
						now += random.Int64N(test.pause)
					}
					check := limiter.Check{Policy: policy, Key: key, Weight: 1}
					if random.IntN(5) > 0 { // forged, replayed or hoarded
						number := challenge.Of(rule.Pass{Number: uint16(random.Uint32())})
						challenge.Admit(&check, strconv.Itoa(number), variants, false)
					}
					play.Step("at %d µs a request by the key %s, %d keys so far", now, check.Key, len(keys))
					keys[check.Key] = true
					if checks := []limiter.Check{check}; decided(t, test.store, checks) {
						admitted = append(admitted, now)
					}
				}
				for from := range admitted {
					within := int64(0)
					for _, at := range admitted[from:] {
						if at < admitted[from]+window.Microseconds() {
							within++
						}
					}
					assert.FatalIf(t, within > bound, "schedule %d: %d admitted, the bound is %d", schedule, within, bound)
					if within == bound {
						reached++
					}
				}
				assert.FatalIf(t, len(keys) > passes+1, "schedule %d has %d keys", schedule, len(keys))
			}
			assert.FatalIf(t, !alone && reached == 0, "no schedule reaches the bound")
		})
	}
}

// decided has a store decide, and reports whether it admits.
func decided(t *testing.T, store limiter.Store, checks []limiter.Check) bool {
	t.Helper()
	_, err := store.Decide(t.Context(), checks)
	assert.Must(t, err)
	return limiter.Allowed(checks)
}
