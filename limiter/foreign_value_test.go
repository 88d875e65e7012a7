package limiter

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/kernel"
)

// everyOperation lists what a batch may do with a state, the refund first.
var everyOperation = []struct {
	operation
	change int64
}{{opSettle, -1}, {opSettle, 1}, {opTake, 0}, {opPeek, 0}, {opTakeRefundable, 0}}

// operate runs one operation on a key, past the queue, and returns its error.
func operate(r *Redis, op operation, change int64, p *Policy, key string) error {
	c := newCall(op, []Check{{Policy: p, Key: EncodeKey(key), Weight: 1, Ticket: kernel.Keep(kernel.Kept{Change: change})}})
	if op == opSettle {
		c.receipts = append(c.receipts[:0], kernel.Receipt{First: 1, Second: 1})
	}
	r.send(context.Background(), r.topology.anyNode, c.alone[:])
	return c.err
}

// doubles writes numbers as a stored state.
func doubles(numbers ...float64) string {
	var text []byte
	for _, n := range numbers {
		text = binary.LittleEndian.AppendUint64(text, math.Float64bits(n))
	}
	return string(text)
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
			all = append(all, doubles(numbers...))
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
		if n := double(value, i); !(n >= 0 && n <= 1<<53 && n == math.Trunc(n)) {
			return false
		}
	}
	return true
}

func TestForeignValue_string(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	client := server.Client(t)
	r := openRedis(t, server, 10*time.Second)
	random := rand.NewChaCha8([32]byte{1})
	for algorithm, counts := range map[string][]int{FixedWindow: {2}, SlidingWindowCounter: {3}, GCRA: {2, 3}, SlidingWindowLog: nil} {
		p := dayPolicy(t, "foreign-"+algorithm, algorithm, 10)
		values := foreignStrings(random, 2)
		if slices.Contains(counts, 3) {
			values = append(values, foreignStrings(random, 3)...)
		}
		for _, value := range values {
			for _, op := range everyOperation {
				if err := client.Set(t.Context(), r.RedisKey(p, EncodeKey("bad")), value, 0).Err(); err != nil {
					t.Fatal(err)
				}
				err := operate(r, op.operation, op.change, p, "bad")
				shared := slices.ContainsFunc(counts, func(count int) bool { return isState(value, count) })
				if shared != (err == nil) || !shared && (Kind(err) != "value" || !FailedAlone(err)) {
					t.Errorf("%s, operation %d, %q: %v of kind %s", algorithm, op, value, err, Kind(err))
				}
			}
		}
	}
}

func TestForeignValue_log_entry(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	client := server.Client(t)
	r := openRedis(t, server, 10*time.Second)
	random := rand.NewChaCha8([32]byte{2})
	p := dayPolicy(t, "foreign-log", SlidingWindowLog, 10)
	for round := range 200 {
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
			name := r.RedisKey(p, EncodeKey("bad"))
			client.Del(t.Context(), name)
			if err := client.RPush(t.Context(), name, entries...).Err(); err != nil {
				t.Fatal(err)
			}
			err := operate(r, op.operation, op.change, p, "bad")
			if (err != nil || wrong) && (Kind(err) != "value" || !FailedAlone(err)) {
				t.Errorf("round %d, operation %d: %v of kind %s", round, op, err, Kind(err))
			}
		}
	}
}

// TestForeignValue_breaker has a client whose state is NaN send many requests.
func TestForeignValue_breaker(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	r := openRedis(t, server, 10*time.Second)
	p := dayPolicy(t, "nan", GCRA, 10)
	ctx := t.Context()
	if err := server.Client(t).Set(ctx, r.RedisKey(p, EncodeKey("bad")), doubles(math.NaN(), math.NaN()), 0).Err(); err != nil {
		t.Fatal(err)
	}
	at := clock.Now()
	r.topology.anyNode.breaker.now = func() clock.Moment { return at }
	for i := range 2 * failuresInARow {
		at = at.Add(failuresSpan)
		if _, err := r.Decide(ctx, []Check{{Policy: p, Key: EncodeKey("bad"), Weight: 1}}); Kind(err) != "value" {
			t.Errorf("request %d: %v of kind %s", i, err, Kind(err))
		}
	}
	decide(t, r, Check{Policy: p, Key: EncodeKey("good"), Weight: 1})
	if stored, err := r.Inspect(ctx, p, EncodeKey("bad")); err != nil || len(stored) != 1 || stored[0].Value != nil {
		t.Errorf("a foreign value is shown as a state: %+v, %v", stored, fmt.Sprint(err))
	}
}
