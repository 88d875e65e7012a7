package lease

import (
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/kernel"
)

const (
	// PaceSamples is over how many gaps between requests a pace is averaged.
	PaceSamples = 16

	// BusyAfter is after how many gaps in a row a key may be busy.
	BusyAfter = 8

	// BusyIn is how many average gaps of a busy key fit into the longest lease.
	BusyIn = 4

	// leaseRequests is how many requests a lease is meant for. They use it up in half of its time.
	leaseRequests = 100

	// leaseTrips is how many round trips a lease lasts at least. If the longest lease is shorter than minTrips round
	// trips, nothing is leased.
	leaseTrips = 16
	minTrips   = 4
)

// Pace is how fast the requests of a key come.
type Pace struct {
	Last clock.Moment
	Gap  float64 // nanoseconds between two requests, on average
	Gaps int32   // in a row, up to PaceSamples
}

// note adds a request. After a gap that is longer than a lease the pace begins anew.
func (p *Pace) note(now clock.Moment, longest time.Duration) {
	gap := max(0, now.Since(p.Last))
	p.Last = max(p.Last, now)
	if gap > longest {
		p.Gap, p.Gaps = 0, 0
		return
	}
	p.Gaps = min(p.Gaps+1, PaceSamples)
	p.Gap += (float64(gap) - p.Gap) / float64(p.Gaps)
}

// isBusy reports whether requests come fast enough for a lease.
func (p *Pace) isBusy(longest time.Duration) bool {
	return p.Gaps >= BusyAfter && p.Gap <= float64(longest)/BusyIn
}

// WatchedKey is a place for a key that might be busy. Keys with the same place vote: the key that comes more often than
// all others together keeps the place.
type WatchedKey struct {
	Key uint64
	Pace
}

// note adds a request of a key, and reports whether the key is busy.
func (w *WatchedKey) note(key uint64, now clock.Moment, longest time.Duration) bool {
	if w.Key == key {
		w.Pace.note(now, longest)
		return w.isBusy(longest)
	}
	if w.Gaps--; w.Gaps < 0 || now.Since(w.Last) > longest {
		*w = WatchedKey{Key: key, Pace: Pace{Last: now}}
	}
	return false
}

// wish returns what to ask for at the key's pace; no units if a lease is not worth it. The lock is held.
func (k *BusyKey) wish(trip time.Duration) kernel.Wish {
	longest, p := k.Policy.Lease, &k.Policy.Params
	if !k.Pace.isBusy(longest) || longest < minTrips*trip {
		return kernel.Wish{}
	}
	gap := max(1, k.Pace.Gap)
	lasts := min(float64(longest), max(2*leaseRequests*gap, float64(leaseTrips*trip)))
	units := lasts / (2 * gap) * k.weight
	w := kernel.Wish{Lasts: int64(lasts) / int64(time.Microsecond) / p.Tick}
	if units >= 2 && w.Lasts > 0 {
		w.Units = int64(min(units, float64(p.Capacity)))
	}
	return w
}
