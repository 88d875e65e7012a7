package redis_test

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/kernel"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redis"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest/stores"
)

// damagedBucket has a bucket of 10 per day whose stored state a test writes.
type damagedBucket struct {
	r    *redis.Store
	p    *limiter.Policy
	name string
}

func newDamagedBucket(t *testing.T) *damagedBucket {
	t.Helper()
	r := stores.Open(t, redistest.Shared(t))
	p := storetest.DayPolicy(t, "damaged", limiter.GCRA, 10)
	return &damagedBucket{r, p, r.RedisKey(p, limiter.EncodeKey("torn"))}
}

const damagedSerial = 1 << 40

// write stores five owed units, a serial and a tail.
func (b *damagedBucket) write(t *testing.T, tail string) (text string) {
	t.Helper()
	text = redistest.Doubles(float64(5*b.p.Params.Window), float64(redis.TicksNow(b.p)), damagedSerial) + tail
	b.writeAll(t, text)
	return text
}

func (b *damagedBucket) writeAll(t *testing.T, text string) {
	t.Helper()
	assert.Must(t, b.r.Client().Set(t.Context(), b.name, text, time.Hour).Err())
}

func (b *damagedBucket) read(t *testing.T) string {
	t.Helper()
	return b.r.Client().Get(t.Context(), b.name).Val()
}

// refund refunds a unit that was taken just now, so many units ago.
func (b *damagedBucket) refund(ago int64) error {
	receipt := kernel.Receipt{First: redis.TicksNow(b.p), Second: damagedSerial - ago}
	c := newRefund(limiter.Check{Policy: b.p, Key: limiter.EncodeKey("torn"), Weight: 1, State: limiter.CheckState{Receipt: receipt}})
	b.r.Send(context.Background(), b.r.Topology.AnyNode, c.Alone[:])
	return c.Err
}

// TestForeignValue_holes_lengths cuts a state with holes at every length.
func TestForeignValue_holes_lengths(t *testing.T) {
	t.Parallel()
	b := newDamagedBucket(t)
	var numbers []float64
	for i := range kernel.MaxHoles + 2 {
		numbers = append(numbers, float64(damagedSerial-3*i-2), 1)
	}
	whole := b.write(t, redistest.Doubles(numbers...))
	for length := range len(whole) + 1 {
		valid := length == 16 || (length >= 24 && length%16 == 8 && length <= 24+16*kernel.MaxHoles)
		for _, op := range everyOperation {
			b.writeAll(t, whole[:length])
			err := operate(b.r, op.Operation, op.change, b.p, "torn")
			assert.ErrorIf(t, valid != (err == nil) || (!valid && (limiter.Kind(err) != "value" || !limiter.FailedAlone(err))),
				"%d bytes, operation %d: %v", length, op, err)
		}
		b.writeAll(t, whole[:length])
		if stored, err := b.r.Inspect(t.Context(), b.p, limiter.EncodeKey("torn")); err != nil || (valid && stored[0].Value["units_owed"] == nil) {
			t.Errorf("%d bytes are shown as %+v, %v", length, stored, err)
		}
	}
}

// TestForeignValue_holes_numbers has holes of numbers that no state has. Takes keep them as they are.
// Only a refund reads them: it fails and changes nothing.
func TestForeignValue_holes_numbers(t *testing.T) {
	t.Parallel()
	b := newDamagedBucket(t)
	for _, n := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, 0.5, 1e-300, 1e300, 1 << 54} {
		for at := range 4 {
			numbers := []float64{damagedSerial - 1, 1, damagedSerial - 4, 1}
			numbers[at] = n
			tail := redistest.Doubles(numbers...)
			for _, op := range everyOperation[1:] {
				b.write(t, tail)
				err := operate(b.r, op.Operation, op.change, b.p, "torn")
				assert.ErrorIf(t, err != nil || b.read(t)[24:] != tail, "%v at %d, operation %d: %v, %q", n, at, op, err, b.read(t))
			}
			before := b.write(t, tail)
			err := b.refund(3)
			assert.ErrorIf(t, limiter.Kind(err) != "value" || !limiter.FailedAlone(err), "%v at %d: a refund returns %v", n, at, err)
			assert.ErrorIf(t, b.read(t) != before, "%v at %d: a refund has written %q", n, at, b.read(t))
		}
	}
}

// TestForeignValue_holes_order has holes of whole numbers in any order and of any length. A refund returns
// at most its unit.
func TestForeignValue_holes_order(t *testing.T) {
	t.Parallel()
	b := newDamagedBucket(t)
	changed, steps := 0, 0
	for seed, play := range assert.Plays(t, 3000, 30_000) {
		random := rand.New(rand.NewPCG(seed, 6))
		number := func() float64 {
			return float64([]int64{random.Int64N(1 << 53), 1 << 53, damagedSerial - random.Int64N(9), random.Int64N(5), 0}[random.IntN(5)])
		}
		var numbers []float64
		for range 2 * (1 + random.IntN(kernel.MaxHoles)) {
			numbers = append(numbers, number())
		}
		before, ago := b.write(t, redistest.Doubles(numbers...)), random.Int64N(8)
		play.Step("a refund of a unit taken %d ago, with holes %.0f", ago, numbers)
		err := b.refund(ago)
		after := b.read(t)
		unit, owed := float64(b.p.Params.Window), redis.Double(before, 0)
		if left := redis.Double(after, 0); err != nil || left < owed-unit-float64(5*time.Minute/time.Microsecond)*10 || left > owed {
			t.Fatalf("%v: %v is left of %v", err, left, owed)
		}
		steps++
		if after != before {
			changed++
		}
	}
	assert.ErrorIf(t, assert.AllSeeds() && (changed == 0 || changed == steps), "%d of %d refunds returned something", changed, steps)
}
