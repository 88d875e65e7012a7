package overrides

import "time"

// clockSample is a reading of Redis's clock.
type clockSample struct{ redis, at time.Time }

// Now returns the time by Redis's clock, without Redis that of this machine. Until Redis's clock was read
// it is that of this machine too.
func (l *Live) Now() time.Time {
	sample := l.clock.Load()
	if sample == nil {
		return time.Now()
	}
	return sample.redis.Add(time.Since(sample.at))
}

// learnTime takes a reading of Redis's clock.
func (l *Live) learnTime(redis time.Time) {
	l.clock.Store(&clockSample{redis: redis, at: time.Now()})
	l.lookedAt = time.Now()
}

// readTime reads the two values of TIME.
func (l *Live) readTime(values []any) error {
	seconds, micros := number(values[0]), number(values[1])
	if seconds <= 0 {
		return errReply
	}
	l.learnTime(time.Unix(seconds, micros*int64(time.Microsecond)))
	return nil
}

// hasEnded reports whether an override has ended now. Those without an end ask no clock.
func (l *Live) hasEnded(e *Entry) bool { return !e.Until.IsZero() && e.ended(l.Now()) }
