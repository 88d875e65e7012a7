package limiter

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// TestFailover_Charge has every algorithm charged into debt, on Redis, in process, in an outage, and
// with a fraction of the limit.
func TestFailover_Charge(t *testing.T) {
	t.Parallel()
	for name, f := range failovers(t) {
		for _, algorithm := range Algorithms() {
			t.Run(name+"/"+algorithm, func(t *testing.T) {
				checks := []Check{{Policy: dayPolicy(t, "charge-"+name+"-"+algorithm, algorithm, 100), Key: EncodeKey("k"), Weight: 1}}
				source, err := f.Decide(context.Background(), checks)
				if err != nil || !Allowed(checks) {
					t.Fatal(checks, err)
				}
				checks[0].Weight = 1000
				f.Charge(checks, source)
				checks[0].Weight = 1
				redistest.WaitFor(t, "the state is in debt", func() error {
					if _, err := f.Decide(context.Background(), checks); err != nil || Allowed(checks) {
						return fmt.Errorf("%+v, %w", checks, err)
					}
					return nil
				})
			})
		}
	}
}

// TestFailover_Charge_outage shows that a debt is not lost to a failure
// between the decision and the charge.
func TestFailover_Charge_outage(t *testing.T) {
	t.Parallel()
	r := openRedis(t, redistest.Start(t), 10*time.Second)
	f := NewFailover(r, NewMemory(), FailoverOptions{})
	checks := []Check{{Policy: dayPolicy(t, "late", GCRA, 100), Key: EncodeKey("k"), Weight: 1}}
	source, err := f.Decide(context.Background(), checks)
	if err != nil || source != SourceRedis {
		t.Fatal(source, err)
	}
	keepOpen(r)
	checks[0].Weight = 1000
	f.Charge(checks, source)
	checks[0].Weight = 1
	if source, err := f.Decide(context.Background(), checks); err != nil || source != SourceFallback || Allowed(checks) {
		t.Errorf("%v, %v, %+v", source, err, checks)
	}
}

// TestBucket_debt: 1 unit a second, 5 at most, and 20 charged: 20 seconds until the whole quota is
// free again, 16 until the next unit.
func TestBucket_debt(t *testing.T) {
	now := epoch
	m := NewMemoryOnClock(func() int64 { return now })
	p := mustPolicy(t, Settings{Algorithm: TokenBucket, Limit: 1, Window: time.Second, Burst: 5})
	m.Charge([]Check{{Policy: p, Key: EncodeKey("k"), Weight: 20}})
	want := Result{RetryAfter: 16 * time.Second, ResetAfter: 20 * time.Second}
	if got := decide(t, m, Check{Policy: p, Key: EncodeKey("k"), Weight: 1})[0].Result; got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	now += 16_000_000
	if got := decide(t, m, Check{Policy: p, Key: EncodeKey("k"), Weight: 1})[0].Result; !got.Passes() {
		t.Errorf("after the wait: %+v", got)
	}
}

// TestMemory_Charge_debt holds the documentation to what becomes of 1,000 units that are charged to
// a limit of 10 per 4 seconds: windows forget their units, buckets earn every one of them.
func TestMemory_Charge_debt(t *testing.T) {
	t.Parallel()
	const window = 4 * time.Second
	for _, algorithm := range Algorithms() {
		t.Run(algorithm, func(t *testing.T) {
			now := epoch
			m := NewMemoryOnClock(func() int64 { return now })
			p := mustPolicy(t, Settings{Algorithm: algorithm, Limit: 10, Window: window})
			decide(t, m, Check{Policy: p, Key: EncodeKey("k"), Weight: 1})
			m.Charge([]Check{{Policy: p, Key: EncodeKey("k"), Weight: 1000}})
			wait := decide(t, m, Check{Policy: p, Key: EncodeKey("k"), Weight: 1})[0].Result.RetryAfter
			t.Logf("the next request passes after %v", wait)
			least, most := 396*time.Second, 397*time.Second // 1,001 units less the 10 that fit, at 10 per 4 s
			if !p.IsBucket() {
				least, most = time.Microsecond, 2*window
			}
			if wait < least || wait > most {
				t.Errorf("the next request passes after %v, want %v to %v", wait, least, most)
			}
			now += wait.Microseconds()
			if got := decide(t, m, Check{Policy: p, Key: EncodeKey("k"), Weight: 1})[0].Result; !got.Passes() {
				t.Errorf("after %v: %+v", wait, got)
			}
		})
	}
}

// TestRedis_Charge_debt peeks at Redis for how long the wait is.
func TestRedis_Charge_debt(t *testing.T) {
	t.Parallel()
	r := openRedis(t, redistest.Start(t), 10*time.Second)
	f := NewFailover(r, NewMemory(), FailoverOptions{})
	for _, algorithm := range Algorithms() {
		t.Run(algorithm, func(t *testing.T) {
			p := mustPolicy(t, Settings{Name: "debt-" + algorithm, Algorithm: algorithm, Limit: 10, Window: time.Hour})
			f.Charge([]Check{{Policy: p, Key: EncodeKey("k"), Weight: 1000}}, SourceRedis)
			check := Check{Policy: p, Key: EncodeKey("k"), Weight: 1}
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
