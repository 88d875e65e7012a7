package limiter

import (
	"sync/atomic"
	"time"
)

// outages counts the nodes whose breaker is open, and reports when the first opens and the last
// closes.
type outages struct {
	failing    atomic.Int32
	since      atomic.Int64 // a moment
	onOutage   func(err error)
	onRecovery func(after time.Duration)
}

func (o *outages) begin(err error) {
	if o.failing.Add(1) == 1 {
		o.since.Store(int64(now()))
		if o.onOutage != nil {
			o.onOutage(err)
		}
	}
}

func (o *outages) end() {
	if o.failing.Add(-1) == 0 && o.onRecovery != nil {
		o.onRecovery(now().since(moment(o.since.Load())))
	}
}
