package limiter

import (
	"sync"
	"time"
)

// renewal asks again about denials before they are too old to be repeated, many at once and
// without anybody waiting. A flood that is refused is so asked about in a few batches a second,
// where each of its clients would otherwise send a request of its own.
type renewal struct {
	shared *Redis
	denied *denyCache
	span   time.Duration // how long questions are collected

	mu  sync.Mutex
	due []Check
}

// add puts a question to the others that wait.
func (r *renewal) add(check Check) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.due = append(r.due, check)
	if len(r.due) == 1 {
		time.AfterFunc(r.span, r.ask)
	}
}

// ask asks about all that is due. Where there is no answer the denial is forgotten in its time.
func (r *renewal) ask() {
	r.mu.Lock()
	due := r.due
	r.due = nil
	r.mu.Unlock()
	sent := time.Now()
	for i := range due {
		r.shared.look(&due[i], func(answered *Check) { r.denied.relearn(answered, sent) })
	}
}
