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

func TestFilter_Pass(t *testing.T) {
	f, now := NewFilter(), time.Now()
	for _, step := range []struct {
		policy, mark, key string
		after             time.Duration
		want              bool
	}{
		{"api", "80", "a", 0, true}, {"api", "80", "a", 0, false}, {"api", "100", "a", 0, true}, {"api", "80", "b", 0, true}, {"login", "80", "a", 0, true},
		{"api", "80", "a", time.Hour - 1, false}, {"api", "80", "a", time.Hour, true}, {"api", "80", "a", time.Hour + 1, false}, {"api", "100", "a", 2 * time.Hour, true},
	} {
		assert.Equal(t, f.Pass(now.Add(step.after), time.Hour, step.policy, step.mark, step.key), step.want, "%+v", step)
	}
}

func TestFilter_Forget(t *testing.T) {
	f, now := NewFilter(), time.Now()
	f.Forget("api", "80", "a")
	f.Pass(now, time.Hour, "api", "80", "a")
	f.Pass(now, time.Hour, "api", "100", "a")
	f.Forget("api", "80", "a")
	assert.ErrorIf(t, !f.Pass(now, time.Hour, "api", "80", "a") || f.Pass(now, time.Hour, "api", "100", "a"),
		"another mark was forgotten than the one")
}

// TestFilter_Pass_wallClock sets the wall clock back: only monotonic time counts.
func TestFilter_Pass_wallClock(t *testing.T) {
	f, now := NewFilter(), time.Now()
	stepped := now
	*(*uint64)(unsafe.Pointer(&stepped)) -= 3 * 60 * 60 << 30 // of the wall clock's seconds alone
	if !f.Pass(now, time.Hour, "api", "80", "a") || f.Pass(stepped.Add(time.Hour-1), time.Hour, "api", "80", "a") || !f.Pass(stepped.Add(time.Hour), time.Hour, "api", "80", "a") {
		t.Error("an hour is not kept")
	}
}

// TestFilter_Pass_together has one event for a mark that many requests reach at once.
func TestFilter_Pass_together(t *testing.T) {
	f, now := NewFilter(), time.Now()
	var passed atomic.Int64
	var group sync.WaitGroup
	for range 64 {
		group.Go(func() {
			for i := range 100 {
				if f.Pass(now, time.Hour, "api", "80", fmt.Sprint(i)) {
					passed.Add(1)
				}
			}
		})
	}
	group.Wait()
	assert.ErrorIf(t, passed.Load() != 100, "%d events of 100 marks", passed.Load())
}

// TestFilter_Pass_flood has more marks than are remembered: each has its event. Ten thousand are remembered
// all.
func TestFilter_Pass_flood(t *testing.T) {
	f, now, again := NewFilter(), time.Now(), 0
	for range 2 {
		for i := range 10_000 {
			if f.Pass(now, time.Hour, "few", "80", fmt.Sprint(i)) {
				again++
			}
		}
	}
	assert.ErrorIf(t, again != 10_000, "%d events of 10,000 marks", again)
	for i := range 200_000 {
		assert.FatalIf(t, !f.Pass(now.Add(time.Duration(i)), time.Hour, "many", "80", fmt.Sprint(i)), "a new mark has no event")
	}
}
