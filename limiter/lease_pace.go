package limiter

import (
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/kernel"
)

const (
	// paceSamples is how many gaps the average of a pace goes over.
	paceSamples = 16

	// busyAfter is the gaps in a row after which a key may be busy, and busyIn how many of them fit the
	// longest lease then.
	busyAfter = 8
	busyIn    = 4

	// leaseRequests is how many requests a lease is to last for. It is used up in half of its time.
	leaseRequests = 100

	// leaseTrips is how many round trips a lease lasts at least. Where the longest lease has less than
	// minTrips there is none.
	leaseTrips = 16
	minTrips   = 4
)

// pace is how fast the requests of a key come.
type pace struct {
	last clock.Moment
	gap  float64 // nanoseconds between two requests, on average
	gaps int32   // in a row, up to paceSamples
}

// note adds a request. A gap that is longer than a lease begins anew.
func (p *pace) note(now clock.Moment, longest time.Duration) {
	gap := max(0, now.Since(p.last))
	p.last = max(p.last, now)
	if gap > longest {
		p.gap, p.gaps = 0, 0
		return
	}
	p.gaps = min(p.gaps+1, paceSamples)
	p.gap += (float64(gap) - p.gap) / float64(p.gaps)
}

// isBusy reports whether a lease is worth it.
func (p *pace) isBusy(longest time.Duration) bool {
	return p.gaps >= busyAfter && p.gap <= float64(longest)/busyIn
}

// watchedKey is a place of the keys that might be busy. Keys with the same place vote: a key that comes
// more often than all others together keeps it.
type watchedKey struct {
	key uint64
	pace
}

// note adds a request of a key, and reports whether the key is busy.
func (w *watchedKey) note(key uint64, now clock.Moment, longest time.Duration) bool {
	if w.key == key {
		w.pace.note(now, longest)
		return w.isBusy(longest)
	}
	if w.gaps--; w.gaps < 0 || now.Since(w.last) > longest {
		*w = watchedKey{key: key, pace: pace{last: now}}
	}
	return false
}

// wish returns what to ask for at the key's pace; no units where a lease is not worth it. The lock is held.
func (k *busyKey) wish(trip time.Duration) kernel.Wish {
	longest, p := k.policy.Rule().Lease, &k.policy.Rule().Params
	if !k.pace.isBusy(longest) || longest < minTrips*trip {
		return kernel.Wish{}
	}
	gap := max(1, k.pace.gap)
	lasts := min(float64(longest), max(2*leaseRequests*gap, float64(leaseTrips*trip)))
	units := lasts / (2 * gap) * k.weight
	w := kernel.Wish{Lasts: int64(lasts) / int64(time.Microsecond) / p.Tick}
	if units >= 2 && w.Lasts > 0 {
		w.Units = int64(min(units, float64(p.Capacity)))
	}
	return w
}
