package limiter

import (
	"slices"
	"time"
)

// This file says how many batches may be on their way at once, and when the next may go. For example on
// a link of 4 ms, which is worth 5 lanes, 0.8 ms from one batch to the next:
//
//	0.0 ms  A request comes and goes at once, in the first lane.
//	0.3 ms  Two more come. It is too soon for a second batch, so they wait for company.
//	0.8 ms  They leave together, in a second lane, though the first batch is still out.
//	4.0 ms  The first answer is there. Nothing waits, so that lane ends.
//	4.8 ms  The answer to the second batch is due, and does not come.
//	13.8 ms It has been out for a millisecond and three usual flights. It has stalled: from now on a
//	        further lane may open in its place, until it comes back or the client gives it up.

const (
	// maxLanes is the most batches in flight that a long round trip is reason for.
	maxLanes = 16

	// maxOpenLanes is the most batches in flight once some do not come back. Where one of twenty
	// takes 50 ms, ten are out at any time, and now and then twice as many.
	maxOpenLanes = 48

	// laneSpan is the part of the round trip that one more lane is worth. On a link without delay
	// there is one: with two, batches are half as large, and cost more than they save.
	laneSpan = time.Millisecond

	// minSpaced is how many lanes a link must be worth for its batches to be spaced out.
	minSpaced = 4

	// stallSpan, and three usual flights, is how long a batch may be in flight before those that
	// come after it go without it.
	stallSpan = time.Millisecond
)

// lanes knows how many batches are in flight and how many may be: as many as the round trip is
// worth, and in place of those that do not come back in time as many again. It is guarded by its
// batcher's lock; the zero value has none.
type lanes struct {
	open      int       // lanes that there are
	flights   []*flight // the batches of those that have sent one
	stalled   int       // flights that are counted no more
	departed  time.Time // when the last batch went
	roundTrip time.Duration
	usual     time.Duration
}

// flight is a batch on its way.
type flight struct {
	sent    time.Time
	stalled bool
}

// allowed adapts the number of batches in flight to the round trip: on a link of 20 ms, two
// batches of 128 would cap at 12,800 requests a second.
func (l *lanes) allowed() int { return min(maxLanes, 1+int(l.roundTrip/laneSpan)) }

// mayOpen tells whether one more lane is worth it for that many calls.
func (l *lanes) mayOpen(calls int) bool {
	return l.open-l.stalled < l.allowed() && l.open < maxOpenLanes && !l.tooSoon(calls)
}

// tooSoon tells whether that many calls should wait a little for company.
func (l *lanes) tooSoon(calls int) bool {
	return calls < maxBatch && len(l.flights) > l.stalled && time.Since(l.departed) < l.spacing()
}

// spacing is the time between batches on a long link. Without it a crowd that comes back at once
// would take all lanes with its first few calls, and the others would wait for a whole round trip.
func (l *lanes) spacing() time.Duration {
	if allowed := l.allowed(); allowed >= minSpaced {
		return l.roundTrip / time.Duration(allowed)
	}
	return 0
}

// tooMany tells whether the other lanes do without one.
func (l *lanes) tooMany() bool { return l.open-l.stalled > l.allowed() }

// depart begins a flight.
func (l *lanes) depart(f *flight) {
	f.sent, f.stalled = time.Now(), false
	l.departed = f.sent
	l.flights = append(l.flights, f)
}

// land ends a flight and learns from it.
func (l *lanes) land(f *flight) {
	if f.stalled {
		l.stalled--
	}
	i := slices.Index(l.flights, f)
	last := len(l.flights) - 1
	l.flights[i], l.flights[last] = l.flights[last], nil
	l.flights = l.flights[:last]
	l.observe(time.Since(f.sent))
}

// patience is how long a flight is waited for.
func (l *lanes) patience() time.Duration { return stallSpan + 3*l.usual }

// giveUpOnLate stops counting the flights that take too long.
func (l *lanes) giveUpOnLate() {
	begin := time.Now().Add(-l.patience())
	for _, f := range l.flights {
		if !f.stalled && f.sent.Before(begin) {
			f.stalled = true
			l.stalled++
		}
	}
}

// untilNews is how long until a lane may open that may not now, because it is too soon or because
// the flights that are out are not late yet.
func (l *lanes) untilNews() time.Duration {
	now := time.Now()
	if l.open-l.stalled < l.allowed() && l.open < maxOpenLanes {
		return max(0, l.spacing()-now.Sub(l.departed))
	}
	wait := l.patience()
	for _, f := range l.flights {
		if !f.stalled {
			wait = min(wait, l.patience()-now.Sub(f.sent))
		}
	}
	return max(wait, stallSpan/4)
}

// observe keeps the shortest flight of late, which is what the link takes when nothing queues, and
// about the median, which a few late ones do not change.
func (l *lanes) observe(took time.Duration) {
	const forgetting = 64
	if l.roundTrip == 0 {
		l.roundTrip, l.usual = took, took
		return
	}
	if took < l.roundTrip {
		l.roundTrip = took
	} else {
		l.roundTrip += (took - l.roundTrip) / forgetting
	}
	if step := l.usual / 16; took > l.usual {
		l.usual += max(step, time.Microsecond)
	} else {
		l.usual -= step
	}
}
