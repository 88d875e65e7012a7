// Package clock measures time: by a monotonic clock that neither NTP nor an administrator sets, by the clock of a
// Redis as its answers show it, and in spans between reports. It runs what is due in the background. It imports
// nothing of the module.
package clock

import (
	"math"
	"sync/atomic"
	"time"
)

// Moment is an instant on this process's monotonic clock, in nanoseconds since the process started.
// A step of the wall clock does not move it. The type keeps it apart from Unix times.
type Moment int64

// processStart is the moment 0.
var processStart = time.Now()

// Now returns the current moment.
func Now() Moment { return Moment(time.Since(processStart)) }

// MomentOf returns the moment of a reading of [time.Now], whose wall clock is ignored.
func MomentOf(t time.Time) Moment { return Moment(t.Sub(processStart)) }

// Add returns the moment that much later, or the last moment that there is.
func (m Moment) Add(d time.Duration) Moment {
	if sum := m + Moment(d); d <= 0 || sum > m {
		return sum
	}
	return math.MaxInt64
}

// Since returns how long after an earlier moment this one is.
func (m Moment) Since(earlier Moment) time.Duration { return time.Duration(m - earlier) }

// Offset estimates how far Redis's clock is ahead of this machine's, from the time that every
// answer of a script carries. That time lies between the sending of the question and the arrival of
// the answer, so that half of the round trip bounds the error. It keeps the sample of the smallest
// error, which grows with age. A sample that contradicts it shows that one of the clocks was set.
//
// Without a lock: of two samples that arrive at once one is dropped. The zero value knows nothing.
type Offset struct {
	best atomic.Pointer[sample]
}

// sample is what one answer shows of the clocks.
type sample struct {
	sent   Moment
	offset time.Duration // Redis's clock less this machine's wall clock
	slack  time.Duration // the offset is at most so wrong
}

const (
	// drift is the fraction of a sample's age that adds to its error: a millisecond a second.
	// NTP slews a clock by at most half of that.
	drift = 1000

	// jitter is the largest difference of two readings of a clock that was not set.
	jitter = time.Millisecond
)

// Ahead returns how far Redis's clock is ahead of this machine's wall clock; negative where it is
// behind. It is not known before the first answer.
func (o *Offset) Ahead() (ahead time.Duration, known bool) {
	best := o.best.Load()
	if best == nil {
		return 0, false
	}
	return best.offset, true
}

// Learn takes a sample: the instants of question and answer, as [time.Now] returns them, and Redis's
// time between them in microseconds since the Unix epoch.
func (o *Offset) Learn(sent, received time.Time, redisTime int64) {
	trip, wall := received.Sub(sent), received.Round(0).Sub(sent.Round(0))
	if (wall - trip).Abs() > jitter+trip/drift {
		return // this machine's clock was set meanwhile
	}
	ahead := time.Duration(redisTime-sent.UnixMicro()) * time.Microsecond
	o.add(&sample{sent: MomentOf(sent), offset: ahead - trip/2, slack: trip / 2})
}

// add keeps a sample that is better than the best, or contradicts it and was sent later.
func (o *Offset) add(s *sample) {
	best := o.best.Load()
	if best == nil {
		o.best.CompareAndSwap(nil, s)
		return
	}
	age := time.Duration(s.sent - best.sent)
	slack := best.slack + max(0, age)/drift
	contradicts := (s.offset - best.offset).Abs() > s.slack+slack+jitter
	if contradicts && age > 0 || !contradicts && s.slack < slack {
		o.best.CompareAndSwap(best, s)
	}
}
