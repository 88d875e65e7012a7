package lease

import (
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/kernel"
)

const (
	// PaceSamples is how many gaps the average of a pace goes over.
	PaceSamples = 16

	// BusyAfter is the gaps in a row after which a key may be busy.
	BusyAfter = 8

	// BusyIn is how many of them fit the longest lease then.
	BusyIn = 4

	// leaseRequests is how many requests a lease is to last for. It is used up in half of its time.
	leaseRequests = 100

	// leaseTrips is how many round trips a lease lasts at least. Where the longest lease has less than
	// minTrips there is none.
	leaseTrips = 16
	minTrips   = 4
)

// Pace is how fast the requests of a key come.
type Pace struct {
	Last clock.Moment
	Gap  float64 // nanoseconds between two requests, on average
	Gaps int32   // in a row, up to PaceSamples
}

// note adds a request. A gap that is longer than a lease begins anew.
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

// isBusy reports whether a lease is worth it.
func (p *Pace) isBusy(longest time.Duration) bool {
	return p.Gaps >= BusyAfter && p.Gap <= float64(longest)/BusyIn
}

// WatchedKey is a place of the keys that might be busy. Keys with the same place vote: a key that comes
// more often than all others together keeps it.
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
	longest, p := k.Policy.Rule().Lease, &k.Policy.Rule().Params
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
