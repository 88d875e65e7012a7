// Package monotonic measures lapses by a clock that is never set: neither a correction by NTP nor an
// administrator moves what is due.
package monotonic

import (
	"sync/atomic"
	"time"
)

// start is what instants are measured from.
var start = time.Now()

// Gate lets something happen at most once per interval. It is safe for concurrent use. The zero value is
// ready and lets the first one pass.
type Gate struct {
	last atomic.Int64 // nanoseconds from start to the last pass, and 1 more; 0: there was none
}

// Pass reports whether it may happen at an instant, and if so notes that it did. The instant comes from
// [time.Now]; only its monotonic reading counts.
func (g *Gate) Pass(now time.Time, interval time.Duration) bool {
	at, last := int64(now.Sub(start))+1, g.last.Load()
	if last != 0 && at-last < int64(interval) {
		return false
	}
	return g.last.CompareAndSwap(last, at)
}
