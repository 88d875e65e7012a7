package limiter

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// TestGuard_charges has every algorithm charged afterwards, into debt, on Redis, in process, in an
// outage, and with a part of the limit.
func TestGuard_charges(t *testing.T) {
	for name, g := range guards(t) {
		for _, algorithm := range Algorithms() {
			t.Run(name+"/"+algorithm, func(t *testing.T) {
				checks := []Check{{Policy: dayPolicy(t, "charge-"+name+"-"+algorithm, algorithm, 100), Key: "k", Weight: 1}}
				source, err := g.Decide(context.Background(), checks, FailLocal)
				if err != nil || !Allowed(checks) {
					t.Fatal(checks, err)
				}
				checks[0].Weight = 1000
				g.Charge(checks, source)
				checks[0].Weight = 1
				redistest.WaitFor(t, "the share is in debt", func() error {
					if _, err := g.Decide(context.Background(), checks, FailLocal); err != nil || Allowed(checks) {
						return fmt.Errorf("%+v, %w", checks, err)
					}
					return nil
				})
			})
		}
	}
}

// TestGuard_charges_here_when_Redis_has_failed_since shows that a debt is not lost to a failure
// between the decision and the charge.
func TestGuard_charges_here_when_Redis_has_failed_since(t *testing.T) {
	r := openRedis(t, redistest.Start(t), 10*time.Second)
	g := NewFailover(r, NewMemory(SystemClock), FailoverOptions{})
	checks := []Check{{Policy: dayPolicy(t, "late", "gcra", 100), Key: "k", Weight: 1}}
	source, err := g.Decide(context.Background(), checks, FailLocal)
	if err != nil || source != SourceRedis {
		t.Fatal(source, err)
	}
	keepOpen(r)
	checks[0].Weight = 1000
	g.Charge(checks, source)
	checks[0].Weight = 1
	if source, err := g.Decide(context.Background(), checks, FailLocal); err != nil || source != SourceFallback || Allowed(checks) {
		t.Errorf("%v, %v, %+v", source, err, checks)
	}
}

// TestBucket_debt_has_to_be_paid: 1 unit a second, 5 at most, and 20 charged: 20 seconds until the
// share is as good as new, 16 until the next unit.
func TestBucket_debt_has_to_be_paid(t *testing.T) {
	now := epoch
	m := NewMemory(func() int64 { return now })
	p := mustPolicy(t, Settings{Algorithm: "token_bucket", Limit: 1, Window: time.Second, Burst: 5})
	m.Charge([]Check{{Policy: p, Key: "k", Weight: 20}})
	want := Result{RetryAfter: 16 * time.Second, ResetAfter: 20 * time.Second}
	if got := decide(t, m, Check{Policy: p, Key: "k", Weight: 1})[0].Result; got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	now += 16_000_000
	if got := decide(t, m, Check{Policy: p, Key: "k", Weight: 1})[0].Result; !got.Passes() {
		t.Errorf("after the wait: %+v", got)
	}
}
