package redis

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/dial"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// Breaker keeps requests from waiting for a Redis that does not decide. It opens on failures. While
// it is open no request is sent; the store probes in the background, and a probe that succeeds
// closes it. It is written out here because a request costs a few atomic operations, where the usual
// libraries take a lock and allocate for each.
type Breaker struct {
	Now      func() clock.Moment
	OnOpen   func(err error)
	OnClose  func()
	state    atomic.Int32
	Probes   atomic.Int64 // the moment of the next probe
	Row      atomic.Int64 // failures in a row, up to FailuresInARow, below the moment of the first of them
	interval atomic.Int64 // number of the interval that total and failed count
	total    atomic.Int32
	failed   atomic.Int32
	wasBad   atomic.Bool // too many failures in the interval before
	unproven atomic.Bool // the outage of the node before goes on until the first success
	last     atomic.Pointer[failure]
}

// failure is when an operation failed, and why.
type failure struct {
	at  clock.Moment
	err error
}

const (
	breakerClosed int32 = iota
	breakerOpen
	breakerRetired
)

const (
	// probeInterval is how long the breaker stays open between probes.
	probeInterval = time.Second

	// FailuresInARow open the breaker; so does a single failure that cannot be chance.
	FailuresInARow = 3

	// FailuresSpan is the least time from the first to the last of them. All requests of a single
	// slow batch fail together; that is one stall and no outage.
	FailuresSpan = 50 * time.Millisecond

	// minSample is how many requests an interval must have for its rate of failures to count. An
	// interval in which half of them or more fail opens the breaker too.
	minSample = 20

	// DoubtSpan is how long after a failure Redis counts as one that does not decide, unless it decides a request meanwhile.
	DoubtSpan = 5 * time.Second
)

// Success counts a decision on a request sent at a moment.
func (b *Breaker) Success(sent clock.Moment) {
	if b.Row.Load() != 0 {
		b.Row.Store(0)
		b.prove()
	}
	b.count(false, sent)
}

// inherit makes the breaker, which has never been open, carry on the outage of a retired node until the first success.
// Requests are sent meanwhile. The failure of the retired node is the first in a row. Inherit reports whether the
// breaker carries on that outage: it carries on one at most.
func (b *Breaker) inherit() bool {
	if b.unproven.Swap(true) {
		return false
	}
	b.Row.Store(int64(b.Now())*(FailuresInARow+1) + 1)
	return true
}

// isUnproven reports whether the node carries on the outage of another one.
func (b *Breaker) isUnproven() bool { return b.unproven.Load() }

// prove ends the outage of the node before.
func (b *Breaker) prove() {
	if b.unproven.Swap(false) {
		b.OnClose()
	}
}

// Failure counts a request that Redis could not decide. It reports whether that opened the breaker.
func (b *Breaker) Failure(err error) (opened bool) {
	now := b.Now()
	lasting := b.countInRow(now)
	b.count(true, now)
	b.last.Store(&failure{now, err})
	if !certain(err) && !lasting && !b.wasBad.Load() || !b.closed() {
		return false
	}
	b.postpone()
	if !b.state.CompareAndSwap(breakerClosed, breakerOpen) {
		return false
	}
	if !b.unproven.Swap(false) {
		b.OnOpen(err)
	}
	return true
}

// countInRow counts a failure, and reports whether enough in a row have lasted for long enough. Number and moment
// change together: all requests of a batch fail at once.
func (b *Breaker) countInRow(now clock.Moment) (lasting bool) {
	for {
		old := b.Row.Load()
		failures, since := old%(FailuresInARow+1), clock.Moment(old/(FailuresInARow+1))
		if failures == 0 {
			since = now
		}
		failures = min(failures+1, FailuresInARow)
		if b.Row.CompareAndSwap(old, int64(since)*(FailuresInARow+1)+failures) {
			return failures == FailuresInARow && now.Since(since) >= FailuresSpan
		}
	}
}

// Close ends the outage after a probe that succeeded.
func (b *Breaker) Close() {
	b.total.Store(0)
	b.failed.Store(0)
	b.Row.Store(0)
	b.wasBad.Store(false)
	if b.state.CompareAndSwap(breakerOpen, breakerClosed) {
		b.OnClose()
	}
	b.prove()
}

// lastFailure returns why the last operation failed, if that was less than [DoubtSpan] ago; nil: it did not fail, or there
// was none.
func (b *Breaker) lastFailure() error {
	if f := b.last.Load(); f != nil && b.Row.Load() != 0 && b.Now().Since(f.at) < DoubtSpan {
		return f.err
	}
	return nil
}

// closed reports whether requests may be sent. A retired breaker is neither closed nor open.
func (b *Breaker) closed() bool { return b.state.Load() == breakerClosed }

// Open reports whether requests are kept from Redis.
func (b *Breaker) Open() bool { return b.state.Load() == breakerOpen }

// retire ends the breaker of a node that is not used any more. The outcomes of requests that are
// still in flight change nothing. It reports whether the node has failed until now: its outage is the caller's to end,
// or another node's to inherit.
func (b *Breaker) retire() (failed bool) {
	wasOpen := b.state.Swap(breakerRetired) == breakerOpen
	return b.unproven.Swap(false) || wasOpen
}

// untilProbe reports whether the breaker is open, and how long it is until the next probe.
func (b *Breaker) untilProbe() (open bool, wait time.Duration) {
	if !b.Open() {
		return false, 0
	}
	return true, max(0, clock.Moment(b.Probes.Load()).Since(b.Now()))
}

// postpone sets the next probe.
func (b *Breaker) postpone() { b.Probes.Store(int64(b.Now().Add(probeInterval))) }

// count keeps the totals of the current interval and judges the one before.
func (b *Breaker) count(failed bool, now clock.Moment) {
	interval := int64(now) / int64(probeInterval)
	if old := b.interval.Load(); interval > old && b.interval.CompareAndSwap(old, interval) {
		total, failures := b.total.Swap(0), b.failed.Swap(0)
		b.wasBad.Store(total >= minSample && 2*failures >= total)
	}
	b.total.Add(1)
	if failed {
		b.failed.Add(1)
	}
}

// certain reports whether one such failure shows that Redis cannot decide now. An error that a
// script caught is no chance either: the next run meets the same. A script that keeps Redis busy
// may have ended before the next request.
func certain(err error) bool {
	switch limiter.Kind(err) {
	case "refused", "readonly", "loading", "masterdown", "clusterdown", "oom", "misconf", "noreplicas", "auth", "command",
		limiter.KindIncompatible:
		return true
	}
	var caught dial.Failure
	return errors.As(err, &caught) && !limiter.FailedAlone(err)
}
