package limiter

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// TestGuard_looks_without_charging asks often, on Redis and in process, for shares of every algorithm.
func TestGuard_looks_without_charging(t *testing.T) {
	server := redistest.Start(t)
	for name, g := range map[string]*Failover{
		"redis":  NewFailover(openRedis(t, server, 10*time.Second), NewMemory(SystemClock), FailoverOptions{}),
		"memory": NewFailover(nil, NewMemory(SystemClock), FailoverOptions{}),
	} {
		for _, algorithm := range Algorithms() {
			t.Run(name+"/"+algorithm, func(t *testing.T) {
				p := dayPolicy(t, "look-"+name+"-"+algorithm, algorithm, 3)
				look := func(weight int64) Result {
					check := Check{Policy: p, Key: "k", Weight: weight}
					if source, err := g.Peek(context.Background(), &check); err != nil || string(source) != name {
						t.Fatal(source, err)
					}
					return check.Result
				}
				if got := look(1); got.Remaining != 3 || got.ResetAfter != 0 || !got.Passes() {
					t.Errorf("a new share: %+v", got)
				}
				for remaining := int64(2); remaining >= 0; remaining-- {
					checks := []Check{{Policy: p, Key: "k", Weight: 1}}
					if _, err := g.Decide(context.Background(), checks, FailLocal); err != nil {
						t.Fatal(err)
					}
					for range 5 {
						if got := look(1); got.Remaining != remaining || got.Passes() != (remaining > 0) || got.ResetAfter <= 0 {
							t.Errorf("%d should remain: %+v", remaining, got)
						}
					}
				}
				if got := look(4); got.RetryAfter != Never {
					t.Errorf("more than the capacity: %+v", got)
				}
			})
		}
	}
}

// TestGuard_looks_at_what_it_knows_while_Redis_is_gone: the error says so, the share is the local one.
func TestGuard_looks_at_what_it_knows_while_Redis_is_gone(t *testing.T) {
	server := redistest.Start(t)
	g := NewFailover(openRedis(t, server, time.Second), NewMemory(SystemClock), FailoverOptions{})
	p := dayPolicy(t, "look-gone", "token_bucket", 3)
	if _, err := g.Decide(context.Background(), []Check{{Policy: p, Key: "k", Weight: 2}}, FailLocal); err != nil {
		t.Fatal(err)
	}
	server.Kill()
	check := Check{Policy: p, Key: "k", Weight: 1}
	source, err := g.Peek(context.Background(), &check)
	if !errors.Is(err, ErrUndecided) || source != SourceFallback || check.Result.Remaining != 1 {
		t.Errorf("%v, %v, %+v", source, err, check.Result)
	}
	server.Run(t)
	redistest.WaitFor(t, "a look sees that Redis is back, whatever the breaker says", func() error {
		_, err := g.Peek(context.Background(), &check)
		return err
	})
}

// TestRedis_tells_what_is_stored reads the share of every algorithm back.
func TestRedis_tells_what_is_stored(t *testing.T) {
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
			if got, told := stored[0].Value[word]; told {
				if found = true; got != want {
					t.Errorf("%s: %s is %v, want %v", algorithm, word, got, want)
				}
			}
		}
		if owed, told := stored[0].Value["units_owed"].(float64); told {
			found = owed > 4.99 && owed <= 5 // it drains
		}
		if !found {
			t.Errorf("%s: %v", algorithm, stored[0].Value)
		}
	}
}
