package once

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

func TestMemory_Pass(t *testing.T) {
	m, now := NewMemory(), time.Now()
	for _, step := range []struct {
		policy, mark, key string
		after             time.Duration
		want              bool
	}{
		{"api", "80", "a", 0, true}, {"api", "80", "a", 0, false}, {"api", "100", "a", 0, true}, {"api", "80", "b", 0, true}, {"login", "80", "a", 0, true},
		{"api", "80", "a", time.Hour - 1, false}, {"api", "80", "a", time.Hour, true}, {"api", "80", "a", time.Hour + 1, false}, {"api", "100", "a", 2 * time.Hour, true},
	} {
		assert.Equal(t, m.Pass(now.Add(step.after), time.Hour, step.policy, step.mark, step.key), step.want, "%+v", step)
	}
}

func TestMemory_Forget(t *testing.T) {
	m, now := NewMemory(), time.Now()
	m.Forget("api", "80", "a")
	m.Pass(now, time.Hour, "api", "80", "a")
	m.Pass(now, time.Hour, "api", "100", "a")
	m.Forget("api", "80", "a")
	assert.ErrorIf(t, !m.Pass(now, time.Hour, "api", "80", "a") || m.Pass(now, time.Hour, "api", "100", "a"),
		"another mark was forgotten than the one")
}

// TestMemory_Pass_wallClock sets the wall clock back: only monotonic time counts.
func TestMemory_Pass_wallClock(t *testing.T) {
	m, now := NewMemory(), time.Now()
	stepped := now
	*(*uint64)(unsafe.Pointer(&stepped)) -= 3 * 60 * 60 << 30 // of the wall clock's seconds alone
	if !m.Pass(now, time.Hour, "api", "80", "a") || m.Pass(stepped.Add(time.Hour-1), time.Hour, "api", "80", "a") || !m.Pass(stepped.Add(time.Hour), time.Hour, "api", "80", "a") {
		t.Error("an hour is not kept")
	}
}

// TestMemory_Pass_together has one event for a mark that many requests reach at once.
func TestMemory_Pass_together(t *testing.T) {
	m, now := NewMemory(), time.Now()
	var passed atomic.Int64
	var group sync.WaitGroup
	for range 64 {
		group.Go(func() {
			for i := range 100 {
				if m.Pass(now, time.Hour, "api", "80", fmt.Sprint(i)) {
					passed.Add(1)
				}
			}
		})
	}
	group.Wait()
	assert.ErrorIf(t, passed.Load() != 100, "%d events of 100 marks", passed.Load())
}

// TestMemory_Pass_flood has more marks than are remembered: each has its event. Ten thousand are remembered
// all.
func TestMemory_Pass_flood(t *testing.T) {
	m, now, again := NewMemory(), time.Now(), 0
	for range 2 {
		for i := range 10_000 {
			if m.Pass(now, time.Hour, "few", "80", fmt.Sprint(i)) {
				again++
			}
		}
	}
	assert.ErrorIf(t, again != 10_000, "%d events of 10,000 marks", again)
	for i := range 200_000 {
		assert.FatalIf(t, !m.Pass(now.Add(time.Duration(i)), time.Hour, "many", "80", fmt.Sprint(i)), "a new mark has no event")
	}
}
