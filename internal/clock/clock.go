// Package clock measures time: by a monotonic clock that neither NTP nor an administrator sets, by the clock of a
// Redis as its answers show it, and in spans between reports. It runs what is due in the background. It imports
// nothing of the module.
package clock

import (
	"math"
	"time"
)

// Moment is an instant on this process's monotonic clock, in nanoseconds since the process started.
// A step of the wall clock does not move it. The type keeps it apart from Unix times.
type Moment int64

// processStart is the moment 0.
var processStart = time.Now()

// Now returns the current moment.
func Now() Moment { return MomentOf(time.Now()) }

// MomentOf returns the moment of a reading of [time.Now], whose wall clock is ignored.
func MomentOf(t time.Time) Moment { return Moment(t.Sub(processStart)) }

// Add returns the moment that lies so much later, or the last one that there is.
func (m Moment) Add(d time.Duration) Moment {
	if sum := m + Moment(d); d <= 0 || sum > m {
		return sum
	}
	return math.MaxInt64
}

// Since returns how long after an earlier moment this one is.
func (m Moment) Since(earlier Moment) time.Duration { return time.Duration(m - earlier) }
