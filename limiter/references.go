package limiter

import (
	"math"
	"sync/atomic"
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
