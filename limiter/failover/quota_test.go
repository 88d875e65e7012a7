package failover

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/memory"
)

// TestFailover_PeekIn reads a quota while Redis answers and after its end, in every mode. No peek waits once
// the breaker is open.
func TestFailover_PeekIn(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	f := New(openRedis(t, server, time.Second), memory.New(), Options{LocalFraction: 0.5})
	p := storetest.DayPolicy(t, "peek-in", limiter.TokenBucket, 10)
	storetest.Decide(t, f, limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Weight: 4})
	peek := func(mode FailMode) (limiter.Source, int64, error) {
		check := limiter.Check{Policy: p, Key: limiter.EncodeKey("k")}
		source, err := f.PeekIn(context.Background(), mode, &check)
		return source, check.Result.Remaining, err
	}
	for _, mode := range FailModes() {
		if source, remaining, err := peek(mode); source != limiter.SourceRedis || remaining != 6 || err != nil {
			t.Errorf("%s: got %d from %s, %v", mode, remaining, source, err)
		}
	}
	server.Kill()
	redistest.WaitFor(t, "the breaker opens", func() error {
		if _, _, err := peek(FailClosed); !errors.Is(err, limiter.ErrUndecided) {
			t.Fatalf("got %v from a dead Redis", err)
		}
		if failing, _ := f.Failing(); !failing {
			return errors.New("it is closed")
		}
		return nil
	})
	for _, mode := range []FailMode{FailOpen, FailClosed} {
		if _, _, err := peek(mode); !errors.Is(err, limiter.ErrOutage) {
			t.Errorf("%s: got %v, want the outage at once", mode, err)
		}
	}
	if source, remaining, err := peek(FailLocal); source != limiter.SourceFallback || remaining > 5 || err != nil {
		t.Errorf("got %d from %s, %v; want at most the half", remaining, source, err)
	}
	gone, leave := context.WithCancel(context.Background())
	leave()
	alone := New(nil, memory.New(), Options{})
	check := limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Weight: 1}
	if source, err := alone.PeekIn(gone, FailClosed, &check); source != limiter.SourceMemory || err != nil || check.Result.Remaining != 10 {
		t.Errorf("in process: got %+v from %s, %v", check.Result, source, err)
	}
	for source, want := range map[limiter.Source]int64{limiter.SourceRedis: 10, limiter.SourceMemory: 10, limiter.SourceFallback: 5} {
		if got := f.CapacityIn(p, source); got != want {
			t.Errorf("the capacity of %s is %d, want %d", source, got, want)
		}
	}
}
