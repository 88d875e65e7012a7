package clock

import (
	"math"
	"sync/atomic"
)

// References count what still needs a store: its owner, decisions under way, background operations
// from their queue to their answer, and requests that refund or charge something later. The last one
// to end closes the store.
type References struct {
	Count  atomic.Int64
	last   func()
	Closed chan struct{} // after last
}

// noReferences is the count after the last reference. A late acquire does not raise it above 0.
const noReferences = math.MinInt64 / 2

// NewReferences counts the owner. The function runs once, after the last reference ended.
func NewReferences(last func()) *References {
	r := &References{last: last, Closed: make(chan struct{})}
	r.Count.Store(1)
	return r
}

// Acquire counts one more, unless the last one has ended.
func (r *References) Acquire() bool { return r.Count.Add(1) > 0 }

// Release ends one that was acquired.
func (r *References) Release() {
	if r.Count.Add(-1) == 0 && r.Count.CompareAndSwap(0, noReferences) {
		r.last()
		close(r.Closed)
	}
}
