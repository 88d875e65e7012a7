package limiter

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
)

// breaker keeps requests from waiting for a Redis that does not decide. It opens on failures. While
// it is open no request is sent; the store probes in the background, and a probe that succeeds
// closes it. It is written out here because a request costs a few atomic operations, where the usual
// libraries take a lock and allocate for each.
type breaker struct {
	now      func() clock.Moment
	onOpen   func(err error)
	onClose  func()
	state    atomic.Int32
	probes   atomic.Int64 // the moment of the next probe
	row      atomic.Int64 // failures in a row, up to failuresInARow, below the moment of the first of them
	interval atomic.Int64 // number of the interval that total and failed count
	total    atomic.Int32
	failed   atomic.Int32
	wasBad   atomic.Bool // too many failures in the interval before
}

const (
	breakerClosed int32 = iota
	breakerOpen
	breakerRetired
)

const (
	// probeInterval is how long the breaker stays open between probes.
	probeInterval = time.Second

	// failuresInARow open the breaker; so does a single failure that cannot be chance.
	failuresInARow = 3

	// failuresSpan is the least time from the first to the last of them. All requests of a single
	// slow batch fail together; that is one stall and no outage.
	failuresSpan = 50 * time.Millisecond

	// minSample is how many requests an interval must have for its rate of failures to count. An
	// interval in which half of them or more fail opens the breaker too.
	minSample = 20
)

// success counts a decision on a request sent at a moment.
func (b *breaker) success(sent clock.Moment) {
	if b.row.Load() != 0 {
		b.row.Store(0)
	}
	b.count(false, sent)
}

// failure counts a request that Redis could not decide. It reports whether that opened the breaker.
func (b *breaker) failure(err error) (opened bool) {
	now := b.now()
	lasting := b.countInRow(now)
	b.count(true, now)
	if !certain(err) && !lasting && !b.wasBad.Load() || !b.closed() {
		return false
	}
	b.postpone()
	if !b.state.CompareAndSwap(breakerClosed, breakerOpen) {
		return false
	}
	b.onOpen(err)
	return true
}

// countInRow counts a failure, and reports whether enough in a row have lasted for long enough. Number and moment
// change together: all requests of a batch fail at once.
func (b *breaker) countInRow(now clock.Moment) (lasting bool) {
	for {
		old := b.row.Load()
		failures, since := old%(failuresInARow+1), clock.Moment(old/(failuresInARow+1))
		if failures == 0 {
			since = now
		}
		failures = min(failures+1, failuresInARow)
		if b.row.CompareAndSwap(old, int64(since)*(failuresInARow+1)+failures) {
			return failures == failuresInARow && now.Since(since) >= failuresSpan
		}
	}
}

// close ends the outage after a probe that succeeded.
func (b *breaker) close() {
	b.total.Store(0)
	b.failed.Store(0)
	b.row.Store(0)
	b.wasBad.Store(false)
	if b.state.CompareAndSwap(breakerOpen, breakerClosed) {
		b.onClose()
	}
}

// closed reports whether requests may be sent. A retired breaker is neither closed nor open.
func (b *breaker) closed() bool { return b.state.Load() == breakerClosed }

// open reports whether requests are kept from Redis.
func (b *breaker) open() bool { return b.state.Load() == breakerOpen }

// retire ends the breaker of a node that is not used any more. The outcomes of requests that are
// still in flight change nothing.
func (b *breaker) retire() {
	if b.state.Swap(breakerRetired) == breakerOpen {
		b.onClose()
	}
}

// untilProbe reports whether the breaker is open, and how long it is until the next probe.
func (b *breaker) untilProbe() (open bool, wait time.Duration) {
	if !b.open() {
		return false, 0
	}
	return true, max(0, clock.Moment(b.probes.Load()).Since(b.now()))
}

// postpone sets the next probe.
func (b *breaker) postpone() { b.probes.Store(int64(b.now().Add(probeInterval))) }

// count keeps the totals of the current interval and judges the one before.
func (b *breaker) count(failed bool, now clock.Moment) {
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
// script caught is no chance either: the next run meets the same.
func certain(err error) bool {
	switch Kind(err) {
	case "refused", "readonly", "loading", "masterdown", "clusterdown", "oom", "misconf", "noreplicas", "auth", "command", kindIncompatible:
		return true
	}
	var caught failure
	return errors.As(err, &caught) && !FailedAlone(err)
}
