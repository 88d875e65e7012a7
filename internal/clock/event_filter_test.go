package clock

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

func TestEventFilter_Pass(t *testing.T) {
	filter, now := NewEventFilter(), time.Now()
	for _, step := range []struct {
		policy, mark, key string
		after             time.Duration
		want              bool
	}{
		{"api", "80", "a", 0, true}, {"api", "80", "a", 0, false}, {"api", "100", "a", 0, true}, {"api", "80", "b", 0, true}, {"login", "80", "a", 0, true},
		{"api", "80", "a", time.Hour - 1, false}, {"api", "80", "a", time.Hour, true}, {"api", "80", "a", time.Hour + 1, false}, {"api", "100", "a", 2 * time.Hour, true},
	} {
		assert.Equal(t, filter.Pass(now.Add(step.after), time.Hour, step.policy, step.mark, step.key), step.want, "%+v", step)
	}
}

func TestEventFilter_Forget(t *testing.T) {
	filter, now := NewEventFilter(), time.Now()
	filter.Forget("api", "80", "a")
	filter.Pass(now, time.Hour, "api", "80", "a")
	filter.Pass(now, time.Hour, "api", "100", "a")
	filter.Forget("api", "80", "a")
	assert.ErrorIf(t, !filter.Pass(now, time.Hour, "api", "80", "a") || filter.Pass(now, time.Hour, "api", "100", "a"),
		"another mark was forgotten than the one")
}

// TestEventFilter_Pass_wallClock sets the wall clock back: only monotonic time counts.
func TestEventFilter_Pass_wallClock(t *testing.T) {
	filter, now := NewEventFilter(), time.Now()
	stepped := now
	*(*uint64)(unsafe.Pointer(&stepped)) -= 3 * 60 * 60 << 30 // of the wall clock's seconds alone
	if !filter.Pass(now, time.Hour, "api", "80", "a") || filter.Pass(stepped.Add(time.Hour-1), time.Hour, "api", "80", "a") || !filter.Pass(stepped.Add(time.Hour), time.Hour, "api", "80", "a") {
		t.Error("an hour is not kept")
	}
}

// TestEventFilter_Pass_together has one event for a mark that many requests reach at once.
func TestEventFilter_Pass_together(t *testing.T) {
	filter, now := NewEventFilter(), time.Now()
	var passed atomic.Int64
	var group sync.WaitGroup
	for range 64 {
		group.Go(func() {
			for i := range 100 {
				if filter.Pass(now, time.Hour, "api", "80", fmt.Sprint(i)) {
					passed.Add(1)
				}
			}
		})
	}
	group.Wait()
	assert.ErrorIf(t, passed.Load() != 100, "%d events of 100 marks", passed.Load())
}

// TestEventFilter_Pass_flood has more marks than are remembered: each has its event. Ten thousand are remembered
// all.
func TestEventFilter_Pass_flood(t *testing.T) {
	filter, now, again := NewEventFilter(), time.Now(), 0
	for range 2 {
		for i := range 10_000 {
			if filter.Pass(now, time.Hour, "few", "80", fmt.Sprint(i)) {
				again++
			}
		}
	}
	assert.ErrorIf(t, again != 10_000, "%d events of 10,000 marks", again)
	for i := range 200_000 {
		assert.FatalIf(t, !filter.Pass(now.Add(time.Duration(i)), time.Hour, "many", "80", fmt.Sprint(i)), "a new mark has no event")
	}
}
