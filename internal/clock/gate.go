package clock

import (
	"sync/atomic"
	"time"
)

// Gate passes at most one caller per interval. It is safe for concurrent use. The zero value is ready and
// passes the first caller.
type Gate struct {
	last atomic.Int64 // the moment of the last pass, plus 1; 0 before the first
}

// Pass reports whether the caller passes at an instant, and begins an interval if so. The instant comes from
// [time.Now]. Only its monotonic reading counts.
func (g *Gate) Pass(now time.Time, interval time.Duration) bool {
	at, last := int64(MomentOf(now))+1, g.last.Load()
	if last != 0 && at-last < int64(interval) {
		return false
	}
	return g.last.CompareAndSwap(last, at)
}
