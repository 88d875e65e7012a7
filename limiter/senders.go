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
	// maxSenders is the most batches in flight that a long round trip is reason for.
	maxSenders = 16

	// maxOpenSenders is the most batches in flight once some do not come back. Where one of twenty
	// takes 50 ms, ten are out at any time, and now and then twice as many.
	maxOpenSenders = 48

	// senderSpan is the part of the round trip that one more lane is worth. On a link without delay
	// there is one: with two, batches are half as large, and cost more than they save.
	senderSpan = time.Millisecond

	// minSpaced is how many lanes a link must be worth for its batches to be spaced out.
	minSpaced = 4

	// stallSpan, and three usual flights, is how long a batch may be in flight before those that
	// come after it go without it.
	stallSpan = time.Millisecond
)

// senders knows how many batches are in flight and how many may be: as many as the round trip is
// worth, and in place of those that do not come back in time as many again. It is guarded by its
// batcher's lock; the zero value has none.
type senders struct {
	open      int         // lanes that there are
	inflights []*inflight // the batches of those that have sent one
	stalled   int         // flights that are counted no more
	departed  time.Time   // when the last batch went
	roundTrip time.Duration
	usual     time.Duration
}

// inflight is a batch on its way.
type inflight struct {
	sent    time.Time
	stalled bool
}

// allowed adapts the number of batches in flight to the round trip: on a link of 20 ms, two
// batches of 128 would cap at 12,800 requests a second.
func (s *senders) allowed() int { return min(maxSenders, 1+int(s.roundTrip/senderSpan)) }

// mayOpen tells whether one more lane is worth it for that many calls.
func (s *senders) mayOpen(calls int) bool {
	return s.open-s.stalled < s.allowed() && s.open < maxOpenSenders && !s.tooSoon(calls)
}

// tooSoon tells whether that many calls should wait a little for company.
func (s *senders) tooSoon(calls int) bool {
	return calls < maxBatch && len(s.inflights) > s.stalled && time.Since(s.departed) < s.pacing()
}

// pacing is the time between batches on a long link. Without it a crowd that comes back at once
// would take all lanes with its first few calls, and the others would wait for a whole round trip.
func (s *senders) pacing() time.Duration {
	if allowed := s.allowed(); allowed >= minSpaced {
		return s.roundTrip / time.Duration(allowed)
	}
	return 0
}

// tooMany tells whether the other lanes do without one.
func (s *senders) tooMany() bool { return s.open-s.stalled > s.allowed() }

// depart begins a flight.
func (s *senders) depart(f *inflight) {
	f.sent, f.stalled = time.Now(), false
	s.departed = f.sent
	s.inflights = append(s.inflights, f)
}

// land ends a flight and learns from it.
func (s *senders) land(f *inflight) {
	if f.stalled {
		s.stalled--
	}
	i := slices.Index(s.inflights, f)
	last := len(s.inflights) - 1
	s.inflights[i], s.inflights[last] = s.inflights[last], nil
	s.inflights = s.inflights[:last]
	s.observe(time.Since(f.sent))
}

// stallTimeout is how long a flight is waited for.
func (s *senders) stallTimeout() time.Duration { return stallSpan + 3*s.usual }

// giveUpOnLate stops counting the flights that take too long.
func (s *senders) giveUpOnLate() {
	begin := time.Now().Add(-s.stallTimeout())
	for _, f := range s.inflights {
		if !f.stalled && f.sent.Before(begin) {
			f.stalled = true
			s.stalled++
		}
	}
}

// nextWake is how long until a lane may open that may not now, because it is too soon or because
// the flights that are out are not late yet.
func (s *senders) nextWake() time.Duration {
	now := time.Now()
	if s.open-s.stalled < s.allowed() && s.open < maxOpenSenders {
		return max(0, s.pacing()-now.Sub(s.departed))
	}
	wait := s.stallTimeout()
	for _, f := range s.inflights {
		if !f.stalled {
			wait = min(wait, s.stallTimeout()-now.Sub(f.sent))
		}
	}
	return max(wait, stallSpan/4)
}

// observe keeps the shortest flight of late, which is what the link takes when nothing queues, and
// about the median, which a few late ones do not change.
func (s *senders) observe(took time.Duration) {
	const forgetting = 64
	if s.roundTrip == 0 {
		s.roundTrip, s.usual = took, took
		return
	}
	if took < s.roundTrip {
		s.roundTrip = took
	} else {
		s.roundTrip += (took - s.roundTrip) / forgetting
	}
	if step := s.usual / 16; took > s.usual {
		s.usual += max(step, time.Microsecond)
	} else {
		s.usual -= step
	}
}
