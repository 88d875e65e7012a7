package storepool

import (
	"math"
	"sync"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
)

const (
	// HistoryStep is the time between two points of a history.
	HistoryStep = 10 * time.Second

	// HistoryPoints is how many points a history has at most. The first and the last are ten minutes apart.
	HistoryPoints = 61
)

// Point is what a policy has met in one step, and what ran and waited on this node at its end. A number that does not fit
// is the largest one.
type Point struct {
	Requests, Denied, WouldBeDenied uint32
	Running, Waiting                uint32
}

// Gauges are the units that run on this node and the requests that wait here, by policy. A policy with none may be
// missing.
type Gauges struct{ Running, Waiting map[string]int64 }

// history has the last points of all policies. Points are numbered from the start of the process, for all policies
// alike. They are differences of the counters that requests pay for anyway, which a timer reads.
type history struct {
	began  time.Time
	timer  clock.Task // it is set while there are names
	mu     sync.Mutex
	latest int64 // number of the last point; 0 before the first
}

// points are those of one policy, by their numbers modulo [HistoryPoints]. A policy has none before its first request.
type points struct {
	ring   [HistoryPoints]Point
	totals totals // at the end of the last one
}

// totals counts the requests that a policy has met.
type totals struct{ requests, denied, wouldBeDenied int64 }

// totals returns what the policy has met.
func (p *Policy) totals() (t totals) {
	t.requests = p.deniedByOthers.Load()
	p.eachDecision(func(o rule.Outcome, requests int64) {
		t.requests += requests
		switch o {
		case rule.Denied:
			t.denied += requests
		case rule.DryDenied:
			t.wouldBeDenied += requests
		}
	})
	return t
}

// untilNext returns the time until the next point is due.
func (h *history) untilNext(now time.Time) time.Duration {
	return HistoryStep - now.Sub(h.began)%HistoryStep
}

// sample adds the point that is due to each policy. Where the timer was late, the points before are empty.
func (n *Names) sample() {
	gauges := n.Gauges()
	n.mu.Lock()
	policies := make([]*Policy, 0, len(n.known))
	for _, p := range n.known {
		policies = append(policies, p)
	}
	n.mu.Unlock()
	now := n.now()
	n.history.mu.Lock()
	defer n.history.mu.Unlock()
	if due := int64(now.Sub(n.history.began) / HistoryStep); due > n.history.latest {
		for _, p := range policies {
			p.addPoint(n.history.latest, due, gauges)
		}
		n.history.latest = due
	}
	if len(policies) > 0 {
		n.history.timer.Start(n.history.untilNext(now))
	}
}

// addPoint adds the point of a number behind the latest. The lock of the history is held.
func (p *Policy) addPoint(latest, number int64, gauges Gauges) {
	t, running, waiting := p.totals(), gauges.Running[p.name], gauges.Waiting[p.name]
	if p.points == nil {
		if t == (totals{}) && running == 0 && waiting == 0 {
			return
		}
		p.points = new(points)
	}
	for missed := max(latest+1, number-HistoryPoints); missed < number; missed++ {
		p.points.ring[missed%HistoryPoints] = Point{}
	}
	before := p.points.totals
	p.points.ring[number%HistoryPoints] = Point{
		Requests: narrow(t.requests - before.requests), Denied: narrow(t.denied - before.denied),
		WouldBeDenied: narrow(t.wouldBeDenied - before.wouldBeDenied),
		Running:       narrow(running), Waiting: narrow(waiting),
	}
	p.points.totals = t
}

// narrow returns the nearest number that a point can hold.
func narrow(n int64) uint32 { return uint32(min(max(n, 0), math.MaxUint32)) }

// Points returns the number of the last point, and the points behind a number, the oldest first. Each policy has equally
// many: at most [HistoryPoints]. A policy whose points are all empty is missing.
func (n *Names) Points(behind int64) (latest int64, of map[string][]Point) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.history.mu.Lock()
	defer n.history.mu.Unlock()
	latest, of = n.history.latest, map[string][]Point{}
	behind = max(behind, latest-HistoryPoints, 0)
	if behind >= latest {
		return latest, of
	}
	for name, p := range n.known {
		if list, met := p.points.from(behind+1, latest); met {
			of[name] = list
		}
	}
	return latest, of
}

// from returns the points from one number to another, and whether any is not empty.
func (p *points) from(first, last int64) (list []Point, met bool) {
	if p == nil {
		return nil, false
	}
	for number := first; number <= last && !met; number++ {
		met = p.ring[number%HistoryPoints] != Point{}
	}
	if !met {
		return nil, false
	}
	list = make([]Point, 0, last-first+1)
	for number := first; number <= last; number++ {
		list = append(list, p.ring[number%HistoryPoints])
	}
	return list, true
}

// gauges returns what runs on this node by the stores of the running configuration, and what waits here on all stores.
func (p *Pool) gauges(names *Names) Gauges {
	g := Gauges{Running: map[string]int64{}, Waiting: map[string]int64{}}
	for policy, w := range p.Waits() {
		g.Waiting[policy] = int64(w.Count)
	}
	stores := p.Newest()
	if stores == nil || !stores.Retain() {
		return g
	}
	defer stores.End()
	for _, name := range names.CountingRunning() {
		g.Running[name] = stores.Running(name)
	}
	return g
}
