package redis

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// attempt is an operation that failed on a node. A probe repeats it on a reserved key, which shows
// whether Redis decides. A PING would not: a user may be permitted to send it and not what the
// script does.
type attempt struct {
	Op       Operation
	Slot     uint16
	Policies []*limiter.Policy
	Err      error // why it failed

	at        clock.Moment // when it failed first
	unreached bool         // Redis could not be reached when it was to be repeated
}

// attemptNow returns an attempt of a take that has not failed.
func attemptNow() *attempt { return &attempt{Op: OpTake, at: clock.Now()} }

// attemptOf returns the attempt of an operation on checks of one slot.
func attemptOf(op Operation, slot uint16, checks []limiter.Check, err error) *attempt {
	a := &attempt{Op: op, Slot: slot, Err: err, at: clock.Now()}
	for i := range checks {
		a.Policies = append(a.Policies, checks[i].Policy)
	}
	return a
}

// outages counts the nodes whose breaker is open, and reports when the first opens and the last
// closes, in turn.
type outages struct {
	mu         sync.Mutex   // while they are reported
	Failing    atomic.Int32 // changes under the lock
	since      clock.Moment
	OnOutage   func(err error)
	OnRecovery func(after time.Duration)
}

// begin counts a node whose breaker opens.
func (o *outages) begin(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.Failing.Add(1) == 1 {
		o.since = clock.Now()
		if o.OnOutage != nil {
			o.OnOutage(err)
		}
	}
}

// end counts a node whose breaker closes.
func (o *outages) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.Failing.Add(-1) == 0 && o.OnRecovery != nil {
		o.OnRecovery(clock.Now().Since(o.since))
	}
}
