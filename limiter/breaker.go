package limiter

import (
	"sync/atomic"
	"time"
)

// breaker keeps requests from waiting for a Redis that does not answer. It opens on failures;
// while it is open nothing is sent but, once an interval, a single probe, whose success closes it.
// It is written out here because a request costs a few atomic operations, where the usual libraries take a
// lock and allocate for each.
type breaker struct {
	now      func() time.Time
	onOpen   func(err error)
	onClose  func()
	state    atomic.Int32
	reopens  atomic.Int64 // unix nanoseconds from which a probe may go
	failures atomic.Int32 // in a row
	since    atomic.Int64 // unix nanoseconds of the first of them
	interval atomic.Int64 // that the counts below are of
	total    atomic.Int32
	failed   atomic.Int32
	wasBad   atomic.Bool // the interval before failed too often
}

const (
	breakerClosed int32 = iota
	breakerOpen
	breakerProbing
	breakerRetired
)

const (
	// probeInterval is how long the breaker stays open between probes.
	probeInterval = time.Second

	// failuresInARow open the breaker; so does a single failure that cannot be chance.
	failuresInARow = 3

	// failuresSpan is the least time from the first to the last of them: all requests of a single
	// slow batch fail together, which is one stall and no outage.
	failuresSpan = 50 * time.Millisecond

	// minSample is how many requests an interval must have for its share of failures to count: an
	// interval with half of them or more opens the breaker too.
	minSample = 20
)

// allow tells whether a request may be sent, and whether it is the probe.
func (b *breaker) allow() (allowed, probe bool) {
	switch b.state.Load() {
	case breakerClosed, breakerRetired:
		return true, false
	}
	if b.now().UnixNano() < b.reopens.Load() {
		return false, false
	}
	probe = b.state.CompareAndSwap(breakerOpen, breakerProbing)
	return probe, probe
}

// success reports a decision on a request sent at some instant.
func (b *breaker) success(probe bool, sent time.Time) {
	if b.failures.Load() != 0 {
		b.failures.Store(0)
	}
	if probe && b.state.CompareAndSwap(breakerProbing, breakerClosed) {
		b.total.Store(0)
		b.failed.Store(0)
		b.wasBad.Store(false)
		b.onClose()
		return
	}
	b.count(false, sent.UnixNano())
}

// failure reports a request that could not be decided.
func (b *breaker) failure(probe bool, err error) {
	if probe {
		b.postpone()
		b.state.CompareAndSwap(breakerProbing, breakerOpen)
		return
	}
	now := b.now().UnixNano()
	if b.failures.Add(1) == 1 {
		b.since.Store(now)
	}
	lasting := b.failures.Load() >= failuresInARow && now-b.since.Load() >= int64(failuresSpan)
	b.count(true, now)
	if certain(err) || lasting || b.wasBad.Load() {
		b.postpone()
		if b.state.CompareAndSwap(breakerClosed, breakerOpen) {
			b.onOpen(err)
		}
	}
}

// neither reports a request whose outcome says nothing of Redis.
func (b *breaker) neither(probe bool) {
	if probe {
		b.state.CompareAndSwap(breakerProbing, breakerOpen)
	}
}

// closed tells whether requests may be sent without a probe, and are worth it.
func (b *breaker) closed() bool { return b.state.Load() == breakerClosed }

// open tells whether requests are kept from Redis.
func (b *breaker) open() bool {
	state := b.state.Load()
	return state == breakerOpen || state == breakerProbing
}

// retire ends the breaker: what it stood for is asked no more. The outcomes of requests that are still
// under way change nothing.
func (b *breaker) retire() {
	switch b.state.Swap(breakerRetired) {
	case breakerOpen, breakerProbing:
		b.onClose()
	}
}

// untilProbe tells whether the breaker is open, and for how long at the least.
func (b *breaker) untilProbe() (open bool, wait time.Duration) {
	if !b.open() {
		return false, 0
	}
	return true, max(0, time.Unix(0, b.reopens.Load()).Sub(b.now()))
}

func (b *breaker) postpone() { b.reopens.Store(b.now().Add(probeInterval).UnixNano()) }

// count keeps the totals of the interval at hand and judges the one before.
func (b *breaker) count(failed bool, now int64) {
	interval := now / int64(probeInterval)
	if old := b.interval.Load(); interval > old && b.interval.CompareAndSwap(old, interval) {
		total, wrong := b.total.Swap(0), b.failed.Swap(0)
		b.wasBad.Store(total >= minSample && 2*wrong >= total)
	}
	b.total.Add(1)
	if failed {
		b.failed.Add(1)
	}
}

// certain tells whether one such failure says that Redis cannot decide for anybody now.
func certain(err error) bool {
	switch Kind(err) {
	case "refused", "readonly", "loading", "masterdown", "clusterdown", "oom", "misconf", "noreplicas", "auth":
		return true
	}
	return false
}
