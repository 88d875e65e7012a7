package limiter

import (
	"sync/atomic"
	"time"
)

// clockOffset estimates how far Redis's clock is ahead of this machine's, from the time that every
// answer of a script carries. That time lies between the sending of the question and the arrival of
// the answer, so that half of the round trip bounds the error. It keeps the sample of the smallest
// error, which grows with age. A sample that contradicts it shows that one of the clocks was set.
//
// Without a lock: of two samples that arrive at once one is dropped. The zero value knows nothing.
type clockOffset struct {
	best atomic.Pointer[clockSample]
}

// clockSample is what one answer shows of the clocks.
type clockSample struct {
	sent   moment
	offset time.Duration // Redis's clock less this machine's wall clock
	slack  time.Duration // the offset is at most so wrong
}

const (
	// clockDrift is the fraction of a sample's age that adds to its error: a millisecond a second.
	// NTP slews a clock by at most half of that.
	clockDrift = 1000

	// clockJitter is the largest difference of two readings of a clock that was not set.
	clockJitter = time.Millisecond
)

// offset returns how far Redis's clock is ahead of this machine's wall clock; negative where it is
// behind. It is not known before the first answer.
func (o *clockOffset) offset() (ahead time.Duration, known bool) {
	best := o.best.Load()
	if best == nil {
		return 0, false
	}
	return best.offset, true
}

// learn takes a sample: the instants of question and answer, as [time.Now] returns them, and Redis's
// time between them in microseconds since the Unix epoch.
func (o *clockOffset) learn(sent, received time.Time, redisTime int64) {
	trip, wall := received.Sub(sent), received.Round(0).Sub(sent.Round(0))
	if (wall - trip).Abs() > clockJitter+trip/clockDrift {
		return // this machine's clock was set meanwhile
	}
	ahead := time.Duration(redisTime-sent.UnixMicro()) * time.Microsecond
	o.add(&clockSample{sent: momentOf(sent), offset: ahead - trip/2, slack: trip / 2})
}

// add keeps a sample that is better than the best, or contradicts it and was sent later.
func (o *clockOffset) add(s *clockSample) {
	best := o.best.Load()
	if best == nil {
		o.best.CompareAndSwap(nil, s)
		return
	}
	age := s.sent.since(best.sent)
	slack := best.slack + max(0, age)/clockDrift
	contradicts := (s.offset - best.offset).Abs() > s.slack+slack+clockJitter
	if contradicts && age > 0 || !contradicts && s.slack < slack {
		o.best.CompareAndSwap(best, s)
	}
}
