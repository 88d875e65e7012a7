package redis

import (
	"slices"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/dial"
)

// This file limits how many batches may be in flight at once, and spaces them. For example on a link
// of 4 ms, which allows 5 senders, 0.8 ms from one batch to the next:
//
//	0.0 ms  A request arrives and leaves at once, by the first sender.
//	0.3 ms  Two more arrive. It is too soon for a second batch, so they wait for others.
//	0.8 ms  They leave together, by a second sender, though the first batch is still in flight.
//	4.0 ms  The first answer is there. Nothing waits, so that sender ends.
//	4.8 ms  The answer to the second batch is due, and does not come.
//	13.8 ms It has been in flight for a millisecond and three usual round trips. It has stalled: from
//	        now on a further sender may open in its place, until it comes back or the client gives it up.

const (
	// maxSenders is the most batches in flight on a link with a long round trip.
	maxSenders = 16

	// senderSpan is how much round trip allows one more sender. On a link without delay there is
	// one: with two, batches are half as large, and cost more than they save.
	senderSpan = time.Millisecond

	// minSpaced is how many senders a link must allow for its batches to be spaced out.
	minSpaced = 4

	// stallSpan, and three usual round trips, is how long a batch may be in flight before those that
	// come after it leave without it.
	stallSpan = time.Millisecond
)

// senders counts the batches in flight and limits them: to as many as the round trip allows, and as
// many again in place of those that do not come back in time. It is guarded by its batcher's lock;
// the zero value has none.
type senders struct {
	Open      int           // senders that run
	inflights []*inflight   // batches in flight
	stalled   int           // of them, those that count no more
	Peak      int           // the most of them that were in flight at once and not late
	lastSent  clock.Moment  // when the last batch left
	RoundTrip time.Duration // the shortest of late
	Usual     time.Duration // about the median

	limit        int          // the most senders while Redis refuses new connections; 0: no limit
	limitedUntil clock.Moment // when that ends
}

// inflight is a batch in flight.
type inflight struct {
	sent    clock.Moment
	stalled bool
	calls   []*Call // nil for a call that its caller sends
	alone   *lone   // bounds such a call; nil for others
}

// allowed adapts the number of batches in flight to the round trip: on a link of 20 ms, two batches
// of 128 would cap at 12,800 requests a second.
func (s *senders) allowed() int { return min(maxSenders, 1+int(s.RoundTrip/senderSpan)) }

// mayOpen reports whether one more sender may open for that many calls.
func (s *senders) mayOpen(calls int) bool {
	if s.Open-s.stalled >= s.allowed() || s.Open >= dial.MaxOpenSenders || s.limit > 0 && s.Open >= s.most() {
		return false
	}
	return len(s.inflights) == s.stalled || !s.tooSoon(calls)
}

// tooSoon reports whether that many calls should wait a little for others.
func (s *senders) tooSoon(calls int) bool {
	return calls < maxBatch && len(s.inflights) > s.stalled && clock.Now().Since(s.lastSent) < s.pacing()
}

// pacing returns the time between batches on a long link. Without it many calls that arrive at once
// would take all senders with the first few, and the others would wait for a whole round trip.
func (s *senders) pacing() time.Duration {
	if allowed := s.allowed(); allowed >= minSpaced {
		return s.RoundTrip / time.Duration(allowed)
	}
	return 0
}

// tooMany reports whether more senders are open than the link and the connections allow.
func (s *senders) tooMany() bool { return s.Open-s.stalled > s.allowed() || s.Open > s.most() }

// most returns how many senders may be open.
func (s *senders) most() int {
	if s.limit > 0 {
		if clock.Now() < s.limitedUntil {
			return s.limit
		}
		s.limit = 0
	}
	return dial.MaxOpenSenders
}

// begin adds a batch in flight.
func (s *senders) begin(f *inflight) {
	f.sent, f.stalled = clock.Now(), false
	s.lastSent = f.sent
	s.inflights = append(s.inflights, f)
	s.Peak = max(s.Peak, len(s.inflights)-s.stalled)
}

// end removes a batch in flight, and observes how long it took: for the shortest round trip of late, which is what the
// link takes when nothing queues, and for about the median, which a few late ones do not change. A refused connection takes
// less than a round trip, and tells nothing of the link.
func (s *senders) end(f *inflight, now clock.Moment, answered bool) {
	if f.calls, f.alone = nil, nil; f.stalled {
		s.stalled--
	}
	i := slices.Index(s.inflights, f)
	last := len(s.inflights) - 1
	s.inflights[i], s.inflights[last] = s.inflights[last], nil
	s.inflights = s.inflights[:last]
	const decay = 64
	took := time.Duration(now - f.sent)
	if !answered && (s.RoundTrip == 0 || took < s.RoundTrip) {
		return
	}
	if s.RoundTrip == 0 {
		s.RoundTrip, s.Usual = took, took
		return
	}
	if took < s.RoundTrip {
		s.RoundTrip = took
	} else {
		s.RoundTrip += (took - s.RoundTrip) / decay
	}
	if step := s.Usual / 16; took > s.Usual {
		s.Usual += max(step, time.Microsecond)
	} else {
		s.Usual -= step
	}
}

// stallTimeout returns how long a batch may be in flight before it counts as stalled.
func (s *senders) stallTimeout() time.Duration { return stallSpan + 3*s.Usual }

// skipStalled stops counting the batches that take too long.
func (s *senders) skipStalled() {
	due := clock.Now().Add(-s.stallTimeout())
	for _, f := range s.inflights {
		if !f.stalled && f.sent < due {
			f.stalled = true
			s.stalled++
		}
	}
}

// nextWake returns how long until a sender may open that may not now, because it is too soon or
// because the batches in flight are not late yet.
func (s *senders) nextWake() time.Duration {
	now := clock.Now()
	if s.Open-s.stalled < s.allowed() && s.Open < s.most() {
		return max(0, s.pacing()-now.Since(s.lastSent))
	}
	wait := s.stallTimeout()
	for _, f := range s.inflights {
		if !f.stalled {
			wait = min(wait, s.stallTimeout()-now.Since(f.sent))
		}
	}
	return max(wait, stallSpan/4)
}
