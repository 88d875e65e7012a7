package failover

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/storetest"
)

// textbookLog is the sliding window log of textbooks: a sorted set with a unique member per unit. It
// is the independent oracle of this test and the baseline of the benchmarks. KEYS: the set. ARGV:
// now, window, limit, weight (microseconds), a prefix for unique members. Returns 1 where the
// request passes.
var textbookLog = goredis.NewScript(`
local now, window, limit, weight = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now - window))
if redis.call('ZCARD', KEYS[1]) + weight > limit then
  return 0
end
for i = 1, weight do
  redis.call('ZADD', KEYS[1], string.format('%.0f', now), ARGV[5] .. ':' .. i)
end
redis.call('EXPIRE', KEYS[1], 3600)
return 1
`)

func TestSlidingWindowLog_oracle(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	client := server.Client(t)
	ctx := context.Background()
	stores := []*testStore{memoryStore(), redisStore(t, server)}
	p := storetest.NewPolicy(t, limiter.Settings{Algorithm: limiter.SlidingWindowLog, Limit: 12, Window: time.Second})
	tr := &trace{random: rand.New(rand.NewPCG(7, 7)), policies: []*limiter.Policy{p}, now: storetest.Epoch}
	allowed, denied := 0, 0
	for i := range 6000 {
		before := tr.now
		tr.step()
		tr.now = max(before, tr.now) // the textbook needs a clock that does not run backwards
		weight := 1 + tr.random.Int64N(4)
		want, err := textbookLog.Run(ctx, client, []string{"oracle"}, tr.now, 1_000_000, 12, weight, i).Bool()
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range stores {
			got := play(t, s, tr.now, p, weight)
			if got.Passes() != want {
				t.Fatalf("step %d, %s: passes is %v, the textbook says %v", i, s.name, got.Passes(), want)
			}
			tr.learn([]limiter.Check{{Result: got}})
		}
		if want {
			allowed++
		} else {
			denied++
		}
	}
	if allowed < 500 || denied < 500 {
		t.Fatalf("one-sided trace: %d allowed, %d denied", allowed, denied)
	}
}
