package limiter

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
)

// attempt is an operation that failed on a node. A probe repeats it on a reserved key, which shows
// whether Redis decides. A PING would not: a user may be permitted to send it and not what the
// script does.
type attempt struct {
	op       operation
	slot     uint16
	policies []*Policy
	err      error // why it failed
}

// attemptOf returns the attempt of an operation on checks of one slot.
func attemptOf(op operation, slot uint16, checks []Check, err error) *attempt {
	if op == opSettle && !slices.ContainsFunc(checks, func(c Check) bool { return keptOf(&c).Change < 0 }) {
		op = opTake // a charge needs no other permissions
	}
	a := &attempt{op: op, slot: slot, err: err}
	for i := range checks {
		a.policies = append(a.policies, checks[i].Policy)
	}
	return a
}

// outages counts the nodes whose breaker is open, and reports when the first opens and the last
// closes, in turn.
type outages struct {
	mu         sync.Mutex   // while they are reported
	failing    atomic.Int32 // changes under the lock
	since      clock.Moment
	onOutage   func(err error)
	onRecovery func(after time.Duration)
}

func (o *outages) begin(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.failing.Add(1) == 1 {
		o.since = clock.Now()
		if o.onOutage != nil {
			o.onOutage(err)
		}
	}
}

func (o *outages) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.failing.Add(-1) == 0 && o.onRecovery != nil {
		o.onRecovery(clock.Now().Since(o.since))
	}
}
