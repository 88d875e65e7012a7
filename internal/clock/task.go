package clock

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
	"weak"
)

// SweepSpan is the time between two slow sweeps of a table.
const SweepSpan = time.Second

// Task runs a function in the background, never twice at once. Its timer is set only while there is something to do:
// each run sets it again for what is left. It may run without need. The zero value never runs; with Run it is ready.
// It is safe for concurrent use.
type Task struct {
	Run  func()
	Life context.Context //nolint:containedctx // the task ends with it; nil: it has no end

	// Weak lets the owner of the task be freed while the timer is set.
	Weak bool

	// After makes the timer. Default: [time.AfterFunc].
	After func(d time.Duration, f func()) Timer

	due   atomic.Int64 // the moment of the next run; 0: none is due
	fired atomic.Int32 // how often the timer has fired since the function began to run; 0: it does not
	mu    sync.Mutex   // guards the timer
	timer Timer        // nil before the first start
}

// Timer is what of a [time.Timer] a task uses.
type Timer interface {
	Reset(d time.Duration) bool
	Stop() bool
}

// Due returns the moment of the next run; 0: none is due.
func (t *Task) Due() Moment { return Moment(t.due.Load()) }

// IsSet reports whether a run is due.
func (t *Task) IsSet() bool { return t.Due() != 0 }

// IsDueBy reports whether a run is due at a moment or earlier.
func (t *Task) IsDueBy(at Moment) bool {
	due := t.due.Load()
	return due != 0 && due <= int64(at)
}

// Start makes the task run after a while, unless a run is due. Call Start once there is something to do, not before.
func (t *Task) Start(after time.Duration) {
	if t.Run != nil && !t.IsSet() {
		now := Now()
		t.StartBy(now.Add(after), now)
	}
}

// StartBy makes the task run at a moment, unless a run is due earlier.
func (t *Task) StartBy(at, now Moment) {
	due := t.due.Load()
	if t.Run == nil || due != 0 && due <= int64(at) || t.Life != nil && t.Life.Err() != nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if due = t.due.Load(); due != 0 && due <= int64(at) {
		return
	}
	t.due.Store(int64(at))
	if wait := time.Duration(at - now); t.timer == nil {
		t.timer = t.newTimer(wait)
	} else {
		t.timer.Reset(wait)
	}
}

// Stop cancels the next run. It does not wait for a run under way.
func (t *Task) Stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.due.Store(0)
	if t.timer != nil {
		t.timer.Stop()
	}
}

// newTimer sets the first timer.
func (t *Task) newTimer(wait time.Duration) Timer {
	fire := t.fire
	if t.Weak {
		kept := weak.Make(t)
		fire = func() {
			if t := kept.Value(); t != nil {
				t.fire()
			}
		}
	}
	if t.After != nil {
		return t.After(wait, fire)
	}
	return time.AfterFunc(wait, fire)
}

// fire runs the function, or has the run under way followed by another. What comes up meanwhile starts the task anew.
func (t *Task) fire() {
	if t.fired.Add(1) > 1 {
		return
	}
	for again := true; again; {
		fired := t.fired.Load()
		t.due.Store(0)
		if t.Life == nil || t.Life.Err() == nil {
			t.Run()
		}
		again = !t.fired.CompareAndSwap(fired, 0)
	}
}
