package limiter

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// TestCharge_debt holds the documentation to what becomes of 1,000 units that are charged to a limit of
// 10 per 4 seconds: windows forget what they count, buckets earn every unit of it.
func TestCharge_debt(t *testing.T) {
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

// TestCharge_debt_on_Redis asks Redis how long the wait is.
func TestCharge_debt_on_Redis(t *testing.T) {
	r := openRedis(t, redistest.Start(t), 10*time.Second)
	g := NewFailover(r, NewMemory(SystemClock), FailoverOptions{})
	for _, algorithm := range Algorithms() {
		t.Run(algorithm, func(t *testing.T) {
			p := mustPolicy(t, Settings{Name: "debt-" + algorithm, Algorithm: algorithm, Limit: 10, Window: time.Hour})
			g.Charge([]Check{{Policy: p, Key: "k", Weight: 1000}}, SourceRedis)
			look := Check{Policy: p, Key: "k", Weight: 1}
			redistest.WaitFor(t, "the debt is charged", func() error {
				if _, err := g.Peek(t.Context(), &look); err != nil || look.Result.Passes() {
					return fmt.Errorf("%+v, %w", look.Result, err)
				}
				return nil
			})
			if owed := look.Result.RetryAfter > 2*time.Hour; owed != p.IsBucket() {
				t.Errorf("the next request passes after %v", look.Result.RetryAfter)
			}
		})
	}
}
