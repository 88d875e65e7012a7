package limiter

import (
	"math"
	"sync/atomic"
	"time"
)

// references count what still needs a store: its owner, decisions under way, background operations
// from their queue to their answer, and requests that refund or charge something later. The last one
// to end closes the store.
type references struct {
	count  atomic.Int64
	last   func()
	closed chan struct{} // after last
}

// noReferences is the count after the last reference. A late acquire does not raise it above 0.
const noReferences = math.MinInt64 / 2

// newReferences counts the owner. The function runs once, after the last reference ended.
func newReferences(last func()) *references {
	r := &references{last: last, closed: make(chan struct{})}
	r.count.Store(1)
	return r
}

// acquire counts one more, unless the last one has ended.
func (r *references) acquire() bool { return r.count.Add(1) > 0 }

// release ends one that was acquired.
func (r *references) release() {
	if r.count.Add(-1) == 0 && r.count.CompareAndSwap(0, noReferences) {
		r.last()
		close(r.closed)
	}
}

// Close ends the owner's use of the store. The client is closed after decisions under way, queued
// refunds and charges, requests of [Failover.Retain], and running requests until their [Failover.EndRunning].
// Close waits for that, but not longer than the timeout; the store decides until then.
func (r *Redis) Close() error {
	if r.closing.Swap(true) {
		return nil
	}
	r.uses.release()
	wait := time.NewTimer(min(r.timeout, ConnectBudget))
	defer wait.Stop()
	select {
	case <-r.uses.closed:
		return r.closeError
	case <-wait.C:
		return nil
	}
}

// Retain keeps the shared store open until [Failover.Release], for a refund or a charge after a
// decision. It reports whether the store is open; only then Release must follow.
func (f *Failover) Retain() bool { return f.shared == nil || f.shared.uses.acquire() }

// Release ends what [Failover.Retain] began.
func (f *Failover) Release() {
	if f.shared != nil {
		f.shared.uses.release()
	}
}
