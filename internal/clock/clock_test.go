package clock

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"
	"weak"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// withStep returns an instant as [time.Now] gives it after the wall clock was set ahead, or back: its
// monotonic reading goes on. The wall clock's seconds begin at bit 30 of the first field.
func withStep(now time.Time, ahead time.Duration) time.Time {
	*(*uint64)(unsafe.Pointer(&now)) += uint64(ahead/time.Second) << 30 // wraps around below 0
	return now
}

func TestGate_Pass(t *testing.T) {
	now := time.Now()
	stepped := withStep(now, -3*time.Hour)
	assert.FatalIf(t, stepped.Sub(now) != 0 || now.Round(0).Sub(stepped.Round(0)) != 3*time.Hour,
		"%v is not %v with the wall clock set back", stepped, now)
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
		{"after a step ahead, too early", withStep(now, 3*time.Hour), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			var g Gate
			assert.ErrorIf(t, !g.Pass(now, time.Minute), "the first one did not pass")
			assert.Equal(t, g.Pass(test.second, time.Minute), test.want, "the second one")
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
	assert.Equal(t, passed.Load(), 1, "how many passed")
}

func TestOffset_add(t *testing.T) {
	const ms = time.Millisecond
	at := func(d time.Duration) Moment { return Moment(0).Add(d) }
	good := sample{at(0), 5 * time.Second, ms}
	for _, test := range []struct {
		name    string
		samples []sample
		want    time.Duration
	}{
		{"the first", []sample{good}, 5 * time.Second},
		{"a shorter round trip", []sample{{at(0), 5*time.Second + 3*ms, 10 * ms}, {at(ms), 5 * time.Second, ms}}, 5 * time.Second},
		{"a shorter round trip that began before", []sample{{at(ms), 5*time.Second + 3*ms, 10 * ms}, good}, 5 * time.Second},
		{"a longer round trip", []sample{good, {at(ms), 5*time.Second + 3*ms, 10 * ms}}, 5 * time.Second},
		{"a longer one, after a while", []sample{good, {at(time.Second + ms), 5*time.Second + ms/2, 3 * ms / 2}}, 5*time.Second + ms/2},
		{"a much longer one, after a while", []sample{good, {at(time.Second), 5*time.Second + 3*ms, 10 * ms}}, 5 * time.Second},
		{"a clock set ahead", []sample{good, {at(ms), 6 * time.Second, ms}}, 6 * time.Second},
		{"a clock set back, a long round trip", []sample{good, {at(ms), 4 * time.Second, 500 * ms}}, 4 * time.Second},
		{"an answer from before the clock was set", []sample{{at(ms), 6 * time.Second, ms}, good}, 6 * time.Second},
		{"a shorter one from before the clock was set", []sample{{at(ms), 6 * time.Second, 10 * ms}, good}, 6 * time.Second},
		{"a step within the error, after a while", []sample{good, {at(ms), 5*time.Second + 2*ms, ms}, {at(time.Second), 5*time.Second + 2*ms, ms}}, 5*time.Second + 2*ms},
	} {
		var o Offset
		for i := range test.samples {
			o.add(&test.samples[i])
		}
		got, known := o.Ahead()
		assert.ErrorIf(t, got != test.want || !known, "%s: %v, known %v; want %v", test.name, got, known, test.want)
	}
}

func TestOffset_learn(t *testing.T) {
	const hour, trip = time.Hour, 20 * time.Millisecond
	sent := time.Now()
	redisTime := sent.Add(hour + trip/2).UnixMicro()
	var o Offset
	if _, known := o.Ahead(); known {
		t.Error("known before the first sample")
	}
	want := func(when string, want time.Duration) {
		t.Helper()
		if got, known := o.Ahead(); !known || (got-want).Abs() > time.Microsecond {
			t.Errorf("%s: %v, known %v; want %v", when, got, known, want)
		}
	}
	o.Learn(sent, sent.Add(trip), redisTime)
	want("Redis is ahead", hour)
	sent = sent.Add(trip)
	o.Learn(sent, withStep(sent.Add(trip), 3*hour), redisTime+trip.Microseconds())
	want("this machine's clock is set during a round trip", hour)
	o.Learn(withStep(sent, 3*hour), withStep(sent.Add(trip), 3*hour), redisTime+trip.Microseconds())
	want("after it was set", -2*hour)
}

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
			assert.FatalIf(t, len(ran) != len(want) || task.IsSet(), "it ran after %v, want %v; set %v", ran, want, task.IsSet())
			for i := range want {
				assert.ErrorIf(t, ran[i] != want[i], "it ran after %v, want %v", ran, want)
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
			assert.ErrorIf(t, running.Add(1) > 1, "it runs twice at once")
			if runs.Add(1) < 3 {
				task.Start(time.Millisecond)
			}
			<-time.After(time.Second)
			running.Add(-1)
		}
		task.Start(0)
		<-time.After(time.Minute)
		synctest.Wait()
		assert.Equal(t, runs.Load(), 3, "the number of runs")
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
