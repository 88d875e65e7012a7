package redisratelimit

import (
	"sync"
	"time"
)

// lossLines decides which refunds and charges that Redis did not do get a line in the log: the first of an outage,
// else one a minute. Requests in flight fail at about the time when an outage is noticed, and some of them before, so
// that the line of the minute before an outage is also the outage's. The zero value is ready.
type lossLines struct {
	mu       sync.Mutex
	inOutage bool
	told     bool      // the outage has its line
	last     time.Time // of a line; zero before the first
}

// due reports whether the loss of an instant gets a line, and counts it as written if so.
func (l *lossLines) due(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.inOutage && l.told || !l.inOutage && l.recent(now) {
		return false
	}
	l.told, l.last = true, now
	return true
}

// begin begins an outage.
func (l *lossLines) begin(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inOutage, l.told = true, l.told && l.recent(now)
}

// end ends the outage.
func (l *lossLines) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inOutage, l.told = false, false
}

// recent reports whether the last line is less than a minute old.
func (l *lossLines) recent(now time.Time) bool {
	return !l.last.IsZero() && now.Sub(l.last) < time.Minute
}
