package redis_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/kernel"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redis"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest/stores"
)

// everyOperation lists what a batch may do with a state, the refund first.
var everyOperation = []struct {
	redis.Operation
	change int64
}{{redis.OpChange, -1}, {redis.OpChange, 1}, {redis.OpTake, 0}, {redis.OpPeek, 0}, {redis.OpTake | redis.WithReceipt, 0}}

// operate runs one operation on a key, past the queue, and returns its error.
func operate(r *redis.Store, op redis.Operation, change int64, p *limiter.Policy, key string) error {
	checks := []limiter.Check{{Policy: p, Key: limiter.EncodeKey(key), Weight: 1, State: limiter.CheckState{Receipt: kernel.Receipt{First: 1, Second: 1}}}}
	c := redis.NewCall(op, checks)
	if op == redis.OpChange {
		c = redis.NewChange(checks, limiter.Change{Units: change})
	}
	r.Send(context.Background(), r.Topology.AnyNode, c.Alone[:])
	return c.Err
}

// foreignStrings lists values that are no state of count numbers: of every length, and of numbers
// that no state has.
func foreignStrings(random *rand.ChaCha8, count int) []string {
	var all []string
	for length := range 65 {
		value := make([]byte, length)
		_, _ = random.Read(value) // never fails
		all = append(all, string(value), strings.Repeat("a", length))
	}
	for i := range count {
		for _, n := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, 0.5, 1e-300, 1e300, 1 << 54} {
			numbers := make([]float64, count)
			numbers[i] = n
			all = append(all, redistest.Doubles(numbers...))
		}
	}
	return all
}

// isState reports whether a string is of so many whole numbers from 0 to 2^53.
func isState(value string, count int) bool {
	if len(value) != 8*count {
		return false
	}
	for i := range count {
		if n := redis.Double(value, i); !(n >= 0 && n <= 1<<53 && n == math.Trunc(n)) {
			return false
		}
	}
	return true
}

func TestForeignValue_string(t *testing.T) {
	t.Parallel()
	foreignStringsFail(t, redistest.Shared(t))
}

func foreignStringsFail(t *testing.T, server *redistest.Server) {
	t.Helper()
	client := server.Client(t)
	r := stores.Open(t, server)
	random := rand.NewChaCha8([32]byte{1})
	for algorithm, counts := range map[string][]int{limiter.FixedWindow: {2}, limiter.SlidingWindowCounter: {3}, limiter.GCRA: {2, 3}, limiter.SlidingWindowLog: nil} {
		p := storetest.DayPolicy(t, "foreign-"+algorithm, algorithm, 10)
		values := foreignStrings(random, 2)
		if slices.Contains(counts, 3) {
			values = append(values, foreignStrings(random, 3)...)
		}
		for _, value := range values {
			for _, op := range everyOperation {
				assert.Must(t, client.Set(t.Context(), r.RedisKey(p, limiter.EncodeKey("bad")), value, 0).Err())
				err := operate(r, op.Operation, op.change, p, "bad")
				shared := slices.ContainsFunc(counts, func(count int) bool { return isState(value, count) })
				assert.ErrorIf(t, shared != (err == nil) || !shared && (limiter.Kind(err) != "value" || !limiter.FailedAlone(err)),
					"%s, operation %d, %q: %v of kind %s", algorithm, op, value, err, limiter.Kind(err))
			}
		}
	}
}

func TestForeignValue_log_entry(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	client := server.Client(t)
	r := stores.Open(t, server)
	p := storetest.DayPolicy(t, "foreign-log", limiter.SlidingWindowLog, 10)
	for seed, play := range assert.Plays(t, 200, 2000) {
		random, round := rand.NewChaCha8([32]byte{2, byte(seed), byte(seed >> 8)}), int(seed)
		var entries []any
		for range 1 + round%20 {
			entry := make([]byte, 11)
			_, _ = random.Read(entry) // never fails
			entries = append(entries, string(entry))
		}
		wrong := round%2 == 1 // an entry of another length is at an end, where every operation reads it
		newest := kernel.NewLogEntry(time.Now().UnixMicro(), int64(round)*7919)
		entries = append(entries, string(newest[:]))
		if wrong {
			entries = append(entries, strings.Repeat("x", round%64/12*12))
		}
		for _, op := range everyOperation {
			name := r.RedisKey(p, limiter.EncodeKey("bad"))
			client.Del(t.Context(), name)
			assert.Must(t, client.RPush(t.Context(), name, entries...).Err())
			play.Step("operation %d on %x", op, entries)
			err := operate(r, op.Operation, op.change, p, "bad")
			assert.ErrorIf(t, (err != nil || wrong) && (limiter.Kind(err) != "value" || !limiter.FailedAlone(err)),
				"operation %d: %v of kind %s", op, err, limiter.Kind(err))
		}
	}
}

// TestForeignValue_breaker has clients send many requests whose states are NaN and of another type.
func TestForeignValue_breaker(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	r, client := stores.Open(t, server), server.Client(t)
	p := storetest.DayPolicy(t, "typed", limiter.GCRA, 10)
	ctx := t.Context()
	assert.Must(t, client.Set(ctx, r.RedisKey(p, limiter.EncodeKey("nan")), redistest.Doubles(math.NaN(), math.NaN()), 0).Err())
	assert.Must(t, client.RPush(ctx, r.RedisKey(p, limiter.EncodeKey("list")), "x").Err())
	at := clock.Now()
	r.Topology.AnyNode.Breaker.Now = func() clock.Moment { return at }
	for _, key := range []string{"nan", "list"} {
		for i := range 2 * redis.FailuresInARow {
			at = at.Add(redis.FailuresSpan)
			err := errorOf(r, p, key)
			assert.ErrorIf(t, limiter.Kind(err) != "value" || strings.Contains(err.Error(), "typed"),
				"request %d of %s: %v of kind %s; want one that names no key", i, key, err, limiter.Kind(err))
		}
		storetest.Decide(t, r, limiter.Check{Policy: p, Key: limiter.EncodeKey("good"), Weight: 1})
		if stored, err := r.Inspect(ctx, p, limiter.EncodeKey(key)); err != nil || len(stored) != 1 || stored[0].Value != nil {
			t.Errorf("a foreign value is shown as a state: %+v, %v", stored, fmt.Sprint(err))
		}
	}
}
