package clock

import (
	"sync/atomic"
	"time"
	"weak"
)

// sweepSpan is the time between two slow sweeps.
const sweepSpan = time.Second

// Sweeper sweeps a table now and then, for as long as there is something in it. It does not keep the table
// in memory. The zero value never sweeps.
type Sweeper struct {
	Sweep func() (left bool)
	set   atomic.Bool // the timer is
}

// IsSet reports whether the timer is set.
func (w *Sweeper) IsSet() bool { return w.set.Load() }

// Start sets the timer, unless it is set. It has to be called after something was stored.
func (w *Sweeper) Start() {
	if w.Sweep == nil || w.set.Load() || w.set.Swap(true) {
		return
	}
	kept := weak.Make(w)
	time.AfterFunc(sweepSpan, func() {
		if w := kept.Value(); w != nil {
			w.tick()
		}
	})
}

// tick sweeps. Who stores something after the look at what is left sets the timer again.
func (w *Sweeper) tick() {
	w.set.Store(false)
	if w.Sweep() {
		w.Start()
	}
}
