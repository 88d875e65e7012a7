package limiter

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// TestMemory_Charge_debt holds the documentation to what becomes of 1,000 units that are charged to
// a limit of 10 per 4 seconds: windows forget their units, buckets earn every one of them.
func TestMemory_Charge_debt(t *testing.T) {
	const window = 4 * time.Second
	for _, algorithm := range Algorithms() {
		t.Run(algorithm, func(t *testing.T) {
			now := epoch
			m := NewMemory(func() int64 { return now })
			p := mustPolicy(t, Settings{Algorithm: algorithm, Limit: 10, Window: window})
			decide(t, m, Check{Policy: p, Key: "k", Weight: 1})
			m.Charge([]Check{{Policy: p, Key: "k", Weight: 1000}})
			wait := decide(t, m, Check{Policy: p, Key: "k", Weight: 1})[0].Result.RetryAfter
			t.Logf("the next request passes after %v", wait)
			least, most := 396*time.Second, 397*time.Second // 1,001 units less the 10 that fit, at 10 per 4 s
			if !p.IsBucket() {
				least, most = time.Microsecond, 2*window
			}
			if wait < least || wait > most {
				t.Errorf("the next request passes after %v, want %v to %v", wait, least, most)
			}
			now += wait.Microseconds()
			if got := decide(t, m, Check{Policy: p, Key: "k", Weight: 1})[0].Result; !got.Passes() {
				t.Errorf("after %v: %+v", wait, got)
			}
		})
	}
}

// TestRedis_Charge_debt peeks at Redis for how long the wait is.
func TestRedis_Charge_debt(t *testing.T) {
	r := openRedis(t, redistest.Start(t), 10*time.Second)
	f := NewFailover(r, NewMemory(SystemClock), FailoverOptions{})
	for _, algorithm := range Algorithms() {
		t.Run(algorithm, func(t *testing.T) {
			p := mustPolicy(t, Settings{Name: "debt-" + algorithm, Algorithm: algorithm, Limit: 10, Window: time.Hour})
			f.Charge([]Check{{Policy: p, Key: "k", Weight: 1000}}, SourceRedis)
			check := Check{Policy: p, Key: "k", Weight: 1}
			redistest.WaitFor(t, "the debt is charged", func() error {
				if _, err := f.Peek(t.Context(), &check); err != nil || check.Result.Passes() {
					return fmt.Errorf("%+v, %w", check.Result, err)
				}
				return nil
			})
			if owed := check.Result.RetryAfter > 2*time.Hour; owed != p.IsBucket() {
				t.Errorf("the next request passes after %v", check.Result.RetryAfter)
			}
		})
	}
}
