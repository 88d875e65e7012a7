package thresholds

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"
)

func TestMemory_Pass(t *testing.T) {
	m, now := NewMemory(), time.Now()
	for _, step := range []struct {
		policy, key string
		percent     float64
		after       time.Duration
		want        bool
	}{
		{"api", "a", 80, 0, true}, {"api", "a", 80, 0, false}, {"api", "a", 100, 0, true}, {"api", "b", 80, 0, true}, {"login", "a", 80, 0, true},
		{"api", "a", 80, time.Hour - 1, false}, {"api", "a", 80, time.Hour, true}, {"api", "a", 80, time.Hour + 1, false}, {"api", "a", 100, 2 * time.Hour, true},
	} {
		if got := m.Pass(step.policy, step.key, step.percent, now.Add(step.after), time.Hour); got != step.want {
			t.Errorf("%+v: got %v", step, got)
		}
	}
}

func TestMemory_Forget(t *testing.T) {
	m, now := NewMemory(), time.Now()
	m.Forget("api", "a", 80)
	m.Pass("api", "a", 80, now, time.Hour)
	m.Pass("api", "a", 100, now, time.Hour)
	m.Forget("api", "a", 80)
	if !m.Pass("api", "a", 80, now, time.Hour) || m.Pass("api", "a", 100, now, time.Hour) {
		t.Error("another mark was forgotten than the one")
	}
}

// TestMemory_Pass_wallClock sets the wall clock back: only monotonic time counts.
func TestMemory_Pass_wallClock(t *testing.T) {
	m, now := NewMemory(), time.Now()
	stepped := now
	*(*uint64)(unsafe.Pointer(&stepped)) -= 3 * 60 * 60 << 30 // of the wall clock's seconds alone
	if !m.Pass("api", "a", 80, now, time.Hour) || m.Pass("api", "a", 80, stepped.Add(time.Hour-1), time.Hour) || !m.Pass("api", "a", 80, stepped.Add(time.Hour), time.Hour) {
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
				if m.Pass("api", fmt.Sprint(i), 80, now, time.Hour) {
					passed.Add(1)
				}
			}
		})
	}
	group.Wait()
	if passed.Load() != 100 {
		t.Errorf("%d events of 100 marks", passed.Load())
	}
}

// TestMemory_Pass_flood has more marks than are remembered: each has its event. Ten thousand are remembered
// all.
func TestMemory_Pass_flood(t *testing.T) {
	m, now, again := NewMemory(), time.Now(), 0
	for range 2 {
		for i := range 10_000 {
			if m.Pass("few", fmt.Sprint(i), 80, now, time.Hour) {
				again++
			}
		}
	}
	if again != 10_000 {
		t.Errorf("%d events of 10,000 marks", again)
	}
	for i := range 200_000 {
		if !m.Pass("many", fmt.Sprint(i), 80, now.Add(time.Duration(i)), time.Hour) {
			t.Fatal("a new mark has no event")
		}
	}
}
