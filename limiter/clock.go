package limiter

import "time"

// moment is an instant on this process's monotonic clock, in nanoseconds since the process started.
// A step of the wall clock does not move it. The type keeps it apart from Unix times.
type moment int64

// processStart is the moment 0.
var processStart = time.Now()

// now returns the current moment.
func now() moment { return momentOf(time.Now()) }

// momentOf returns the moment of a reading of [time.Now], whose wall clock is ignored.
func momentOf(t time.Time) moment { return moment(t.Sub(processStart)) }

// add returns the moment that lies so much later.
func (m moment) add(d time.Duration) moment { return m + moment(d) }

// since returns how long after an earlier moment this one is.
func (m moment) since(earlier moment) time.Duration { return time.Duration(m - earlier) }

// SystemClock is the clock of this machine.
func SystemClock() int64 { return time.Now().UnixMicro() }
