package clock

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// stepBack is an instant as [time.Now] gives it after the wall clock was set back: its monotonic reading
// goes on. The wall clock's seconds begin at bit 30 of the first field.
func stepBack(now time.Time, by time.Duration) time.Time {
	*(*uint64)(unsafe.Pointer(&now)) -= uint64(by/time.Second) << 30
	return now
}

func TestGate_Pass(t *testing.T) {
	now := time.Now()
	stepped := stepBack(now, 3*time.Hour)
	if stepped.Sub(now) != 0 || now.Round(0).Sub(stepped.Round(0)) != 3*time.Hour {
		t.Fatalf("%v is not %v with the wall clock set back", stepped, now)
	}
	for _, test := range []struct {
		name   string
		second time.Time
		want   bool
	}{
		{"at once", now, false},
		{"a moment too early", now.Add(time.Minute - 1), false},
		{"after the interval", now.Add(time.Minute), true},
		{"after a step back, too early", stepped.Add(time.Minute - 1), false},
		{"after a step back", stepped.Add(time.Minute), true},
		{"after a step ahead, too early", stepBack(now, -3*time.Hour), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			var g Gate
			redistest.ErrorIf(t, !g.Pass(now, time.Minute), "the first one did not pass")
			got := g.Pass(test.second, time.Minute)
			redistest.ErrorIf(t, got != test.want, "the second one: %v, want %v", got, test.want)
		})
	}
}

func TestGate_Pass_one_of_many(t *testing.T) {
	var g Gate
	var passed atomic.Int32
	var callers sync.WaitGroup
	now := time.Now()
	for range 32 {
		callers.Go(func() {
			if g.Pass(now, time.Minute) {
				passed.Add(1)
			}
		})
	}
	callers.Wait()
	n := passed.Load()
	redistest.ErrorIf(t, n != 1, "%d passed, want 1", n)
}
