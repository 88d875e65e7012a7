package limiter

import (
	"sync"
	"time"
)

// denyRefresher asks again about denials before they are too old to be repeated, many at once and
// without anybody waiting. A flood that is refused is so asked about in a few batches a second,
// where each of its clients would otherwise send a request of its own.
type denyRefresher struct {
	shared *Redis
	denied *denyCache
	span   time.Duration // how long questions are collected

	mu  sync.Mutex
	due []Check
}

// add puts a question to the others that wait.
func (d *denyRefresher) add(check Check) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.due = append(d.due, check)
	if len(d.due) == 1 {
		time.AfterFunc(d.span, d.refresh)
	}
}

// refresh asks about all that is due. Where there is no answer the denial is forgotten in its time.
func (d *denyRefresher) refresh() {
	d.mu.Lock()
	due := d.due
	d.due = nil
	d.mu.Unlock()
	sent := time.Now()
	for i := range due {
		d.shared.peekAsync(&due[i], func(answered *Check) { d.denied.relearn(answered, sent) })
	}
}
