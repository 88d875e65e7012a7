package storepool

import (
	"math"
	"sync"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
)

const (
	// HistoryStep is the time between two points of a history.
	HistoryStep = 10 * time.Second

	// HistoryPoints is how many points a history has at most. The first and the last are ten minutes apart.
	HistoryPoints = 61
)

// Point is what a policy has met in one step, with the bans that began, and what ran and waited on this node at its end. A number
// that does not fit is the largest one.
type Point struct {
	Requests, Denied, WouldBeDenied, Bans uint32
	Running, Waiting                      uint32
}

// Gauges are the units that run on this node and the requests that wait here, by policy. A policy with none may be
// missing.
type Gauges struct{ Running, Waiting map[string]int64 }

// history has the last points of all policies. Points are numbered from the start of the process, for all policies
// alike. They are differences of the counters that requests pay for anyway, which a timer reads.
type history struct {
	began  time.Time
	now    func() time.Time
	read   func() []reading // of all policies
	timer  clock.Task       // it is set while there are policies
	mu     sync.Mutex
	latest int64 // number of the last point; 0 before the first
}

// track is the points of one policy, by their numbers modulo [HistoryPoints], and its totals at the end of the last one.
// The lock of the history guards it.
type track struct {
	ring   *[HistoryPoints]Point // nil: it has met nothing
	totals totals
}

// totals counts the requests that a policy has met, and the bans that began.
type totals struct{ requests, denied, wouldBeDenied, bans int64 }

// reading is what a policy has met in all, and what runs and waits now.
type reading struct {
	of               *track
	totals           totals
	running, waiting int64
}

// start sets the timer. A policy is there.
func (h *history) start() {
	if h.timer.Run == nil {
		h.timer.Run = h.sample
	}
	h.timer.Start(HistoryStep - h.now().Sub(h.began)%HistoryStep)
}

// sample adds the point that is due to each policy. Where the timer was late, the points before are empty.
func (h *history) sample() {
	readings := h.read()
	h.mu.Lock()
	defer h.mu.Unlock()
	if due := int64(h.now().Sub(h.began) / HistoryStep); due > h.latest {
		for i := range readings {
			readings[i].add(h.latest, due)
		}
		h.latest = due
	}
	if len(readings) > 0 {
		h.start()
	}
}

// add adds the point of a number behind the latest.
func (r *reading) add(latest, number int64) {
	t := r.of
	if t.ring == nil {
		if r.totals == (totals{}) && r.running == 0 && r.waiting == 0 {
			return
		}
		t.ring = new([HistoryPoints]Point)
	}
	for missed := max(latest+1, number-HistoryPoints); missed < number; missed++ {
		t.ring[missed%HistoryPoints] = Point{}
	}
	t.ring[number%HistoryPoints] = Point{
		Requests: narrow(r.totals.requests - t.totals.requests), Denied: narrow(r.totals.denied - t.totals.denied),
		WouldBeDenied: narrow(r.totals.wouldBeDenied - t.totals.wouldBeDenied), Bans: narrow(r.totals.bans - t.totals.bans),
		Running: narrow(r.running), Waiting: narrow(r.waiting),
	}
	t.totals = r.totals
}

// narrow returns the nearest number that a point can hold.
func narrow(n int64) uint32 { return uint32(min(max(n, 0), math.MaxUint32)) }

// behind returns the points of tracks behind a number, as [nameTable.Points] does.
func (h *history) behind(number int64, tracks map[string]*track) (latest int64, of map[string][]Point) {
	h.mu.Lock()
	defer h.mu.Unlock()
	latest, of = h.latest, map[string][]Point{}
	number = max(number, latest-HistoryPoints, 0)
	if number >= latest {
		return latest, of
	}
	for name, t := range tracks {
		if list, met := t.from(number+1, latest); met {
			of[name] = list
		}
	}
	return latest, of
}

// from returns the points from one number to another, and whether any is not empty.
func (t *track) from(first, last int64) (list []Point, met bool) {
	if t.ring == nil {
		return nil, false
	}
	for number := first; number <= last && !met; number++ {
		met = t.ring[number%HistoryPoints] != Point{}
	}
	if !met {
		return nil, false
	}
	list = make([]Point, 0, last-first+1)
	for number := first; number <= last; number++ {
		list = append(list, t.ring[number%HistoryPoints])
	}
	return list, true
}
