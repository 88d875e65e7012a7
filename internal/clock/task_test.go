package clock

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// TestTask_runs starts a task at several moments: it runs at the earliest, and again if it was started after that.
func TestTask_runs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin, ran := time.Now(), []time.Duration(nil)
		task := Task{Run: func() { ran = append(ran, time.Since(begin)) }}
		in := func(d time.Duration) { task.StartBy(Now().Add(d), Now()) }
		wait := func(want ...time.Duration) {
			t.Helper()
			<-time.After(time.Hour)
			synctest.Wait()
			redistest.FatalIf(t, len(ran) != len(want) || task.IsSet(), "it ran after %v, want %v; set %v", ran, want, task.IsSet())
			for i := range want {
				redistest.ErrorIf(t, ran[i] != want[i], "it ran after %v, want %v", ran, want)
			}
			begin, ran = time.Now(), nil
		}
		task.Start(time.Second)
		task.Start(time.Millisecond)
		in(time.Minute)
		wait(time.Second)
		task.Start(time.Second)
		in(time.Millisecond)
		wait(time.Millisecond)
		task.Start(time.Second)
		task.Stop()
		wait()
		in(-time.Second)
		wait(0)
	})
}

// TestTask_alone starts a task while it runs: it runs again, but not at once.
func TestTask_alone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running, runs atomic.Int32
		task := &Task{}
		task.Run = func() {
			redistest.ErrorIf(t, running.Add(1) > 1, "it runs twice at once")
			if runs.Add(1) < 3 {
				task.Start(time.Millisecond)
			}
			<-time.After(time.Second)
			running.Add(-1)
		}
		task.Start(0)
		<-time.After(time.Minute)
		synctest.Wait()
		got := runs.Load()
		redistest.ErrorIf(t, got != 3, "%d runs, want 3", got)
	})
}

// TestTask_ends ends the life of a task, before a run and before a start.
func TestTask_ends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		life, end := context.WithCancel(context.Background())
		task := &Task{Life: life, Run: func() { t.Error("it runs") }}
		task.Start(time.Second)
		end()
		<-time.After(time.Minute)
		synctest.Wait()
		if task.Start(0); task.IsSet() {
			t.Error("it is set after its life")
		}
	})
}

// TestTask_dropped drops the owner of a task whose timer is set.
func TestTask_dropped(t *testing.T) {
	type owner struct {
		task Task
		text string
	}
	kept := func() weak.Pointer[owner] {
		o := &owner{text: "kept by the task's function"}
		o.task.Weak, o.task.Run = true, func() { t.Error(o.text) }
		o.task.Start(time.Hour)
		return weak.Make(o)
	}()
	if runtime.GC(); kept.Value() != nil {
		t.Error("it is still in memory")
	}
}
