package limiter

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// TestFailover_Peek peeks often, on Redis and in process, at states of every algorithm.
func TestFailover_Peek(t *testing.T) {
	server := redistest.Start(t)
	for name, f := range map[string]*Failover{
		"redis":  NewFailover(openRedis(t, server, 10*time.Second), NewMemory(SystemClock), FailoverOptions{}),
		"memory": NewFailover(nil, NewMemory(SystemClock), FailoverOptions{}),
	} {
		for _, algorithm := range Algorithms() {
			t.Run(name+"/"+algorithm, func(t *testing.T) {
				p := dayPolicy(t, "peek-"+name+"-"+algorithm, algorithm, 3)
				peek := func(weight int64) Result {
					check := Check{Policy: p, Key: "k", Weight: weight}
					if source, err := f.Peek(context.Background(), &check); err != nil || string(source) != name {
						t.Fatal(source, err)
					}
					return check.Result
				}
				if got := peek(1); got.Remaining != 3 || got.ResetAfter != 0 || !got.Passes() {
					t.Errorf("a new quota: %+v", got)
				}
				for remaining := int64(2); remaining >= 0; remaining-- {
					checks := []Check{{Policy: p, Key: "k", Weight: 1}}
					if _, err := f.Decide(context.Background(), checks, FailLocal); err != nil {
						t.Fatal(err)
					}
					for range 5 {
						if got := peek(1); got.Remaining != remaining || got.Passes() != (remaining > 0) || got.ResetAfter <= 0 {
							t.Errorf("%d should remain: %+v", remaining, got)
						}
					}
				}
				if got := peek(4); got.RetryAfter != Never {
					t.Errorf("more than the capacity: %+v", got)
				}
			})
		}
	}
}

// TestFailover_Peek_outage: the error is the outage's, the state is the local one.
func TestFailover_Peek_outage(t *testing.T) {
	server := redistest.Start(t)
	f := NewFailover(openRedis(t, server, time.Second), NewMemory(SystemClock), FailoverOptions{})
	p := dayPolicy(t, "peek-outage", "token_bucket", 3)
	if _, err := f.Decide(context.Background(), []Check{{Policy: p, Key: "k", Weight: 2}}, FailLocal); err != nil {
		t.Fatal(err)
	}
	server.Kill()
	check := Check{Policy: p, Key: "k", Weight: 1}
	source, err := f.Peek(context.Background(), &check)
	if !errors.Is(err, ErrUndecided) || source != SourceFallback || check.Result.Remaining != 1 {
		t.Errorf("%v, %v, %+v", source, err, check.Result)
	}
	server.Run(t)
	redistest.WaitFor(t, "a peek succeeds as soon as Redis is back, even while the breaker is open", func() error {
		_, err := f.Peek(context.Background(), &check)
		return err
	})
}

// TestRedis_Inspect reads the state of every algorithm back.
func TestRedis_Inspect(t *testing.T) {
	r := openRedis(t, redistest.Start(t), 10*time.Second)
	for _, algorithm := range Algorithms() {
		p := dayPolicy(t, "stored-"+algorithm, algorithm, 9)
		if stored, err := r.Inspect(context.Background(), p, "k"); err != nil || len(stored) != 0 {
			t.Errorf("%s: nothing is stored yet: %v, %v", algorithm, stored, err)
		}
		decide(t, r, Check{Policy: p, Key: "k", Weight: 2})
		decide(t, r, Check{Policy: p, Key: "k", Weight: 3})
		stored, err := r.Inspect(context.Background(), p, "k")
		if err != nil || len(stored) != 1 || stored[0].Name != r.RedisKey(p, "k") || stored[0].TTL <= 0 {
			t.Fatalf("%s: %+v, %v", algorithm, stored, err)
		}
		words := map[string]any{"units": int64(5), "units_after_first_entry": int64(3), "entries": int64(2)}
		found := false
		for word, want := range words {
			if got, found := stored[0].Value[word]; found {
				if found = true; got != want {
					t.Errorf("%s: %s is %v, want %v", algorithm, word, got, want)
				}
			}
		}
		if owed, found := stored[0].Value["units_owed"].(float64); found {
			found = owed > 4.99 && owed <= 5 // it drains
		}
		if !found {
			t.Errorf("%s: %v", algorithm, stored[0].Value)
		}
	}
}
