package limiter

import (
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

func TestSlidingWindowLog_expiry(t *testing.T) {
	server := redistest.Start(t)
	const entries = 40
	p := mustPolicy(t, Settings{Name: "edges", Algorithm: "sliding_window_log", Limit: entries, Window: time.Minute})
	for _, s := range []*testStore{memoryStore(), redisStore(t, server)} {
		for i := range int64(entries) {
			play(t, s, epoch+i, p, 1)
		}
		for dead := range int64(entries + 1) {
			now := epoch + time.Minute.Microseconds() + dead - 1
			if got := play(t, s, now, p, 0).Remaining; got != dead {
				t.Errorf("%s: with %d entries dead, %d units remain", s.name, dead, got)
			}
			want := time.Duration(0)
			if dead < entries {
				want = time.Microsecond
			}
			if got := play(t, s, now, p, dead+1); dead < entries && got.RetryAfter != want {
				t.Errorf("%s: with %d entries dead, one unit more waits %v, want %v", s.name, dead, got.RetryAfter, want)
			}
		}
	}
}

// TestSlidingWindowLog_modulus takes so much that the running totals in Redis pass
// 2^40 several times.
func TestSlidingWindowLog_modulus(t *testing.T) {
	server := redistest.Start(t)
	p := mustPolicy(t, Settings{Name: "wrap", Algorithm: "sliding_window_log", Limit: maxLogLimit, Window: time.Millisecond})
	stores := []*testStore{memoryStore(), redisStore(t, server)}
	total := int64(0)
	for i := range int64(40) {
		now, weight := epoch+i*400, maxLogLimit/4+i
		for _, weight := range []int64{maxLogLimit, weight} { // the first is denied by what is live
			want := play(t, stores[0], now, p, weight)
			if got := play(t, stores[1], now, p, weight); got != want {
				t.Fatalf("take %d: Redis says %+v, the process %+v", i, got, want)
			}
			if want.Passes() {
				total += weight
			}
		}
	}
	if total < 4<<40 {
		t.Errorf("only %d units were taken", total)
	}
}
