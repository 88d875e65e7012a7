package redistest

import (
	"sync"
	"testing"
	"time"
)

// WatchStalls measures how long this process waits for a processor on a busy machine, so that bounds on answers
// can leave that time out. It measures until longest is called, or the test ends.
func WatchStalls(t testing.TB) (longest func() time.Duration) {
	const nap = time.Millisecond
	over, found := make(chan struct{}), make(chan time.Duration, 1)
	go func() {
		ticker := time.NewTicker(nap)
		defer ticker.Stop()
		var worst time.Duration
		for last := time.Now(); ; {
			select {
			case <-ticker.C:
			case <-over:
				found <- worst
				return
			}
			now := time.Now()
			worst = max(worst, now.Sub(last)-nap)
			last = now
		}
	}()
	end := sync.OnceValue(func() time.Duration {
		close(over)
		return <-found
	})
	t.Cleanup(func() { end() })
	return end
}
