package storepool

import (
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// Counts is what a policy has met in this process. What a request costs does not matter.
type Counts struct {
	Since          time.Time // when the first configuration with the name was loaded
	Decisions      map[limiter.Outcome]int64
	DeniedByOthers int64 // that the policy would have let through
	Matched        int64 // responses that count_if counted
	NotMatched     int64 // and did not count
	Looked         int64 // requests that passed and took nothing, as count did not match
	ReserveDenied  int64 // requests that were denied since what was left is reserved
}

// CountDeniedByOthers counts a request that another policy denied, so that it is no decision of this one.
func (p *PolicyStats) CountDeniedByOthers() { p.deniedByOthers.Add(1) }

// CountResponse counts a response that count_if judged.
func (p *PolicyStats) CountResponse(matched bool) {
	if matched {
		p.matched.Add(1)
	} else {
		p.notMatched.Add(1)
	}
}

// Counts returns what the policy has met. Decisions are those of its series, so that requests pay for one count.
func (p *PolicyStats) Counts() Counts {
	c := Counts{
		Since: p.began, Decisions: map[limiter.Outcome]int64{},
		DeniedByOthers: p.deniedByOthers.Load(), Matched: p.matched.Load(), NotMatched: p.notMatched.Load(),
		Looked: p.looked.requests.Load(), ReserveDenied: p.reserveDenied.requests.Load(),
	}
	p.eachDecision(func(o limiter.Outcome, requests int64) { c.Decisions[o] += requests })
	return c
}

// eachDecision calls a function for each series of decisions, with the requests that it counts.
func (p *PolicyStats) eachDecision(call func(o limiter.Outcome, requests int64)) {
	for o := range p.Series {
		for s := range p.Series[o] {
			if counter := p.Series[o][s].Load(); counter != nil {
				call(Outcomes[o], CounterValue(*counter))
			}
		}
	}
}

// CounterValue returns what a counter of whole numbers has counted.
func CounterValue(c prometheus.Counter) int64 {
	var series dto.Metric
	_ = c.Write(&series) // a counter's never fails
	return int64(series.GetCounter().GetValue())
}

// TakeNeverMet reports, once for a name, that no request has come to the policy for a while since its first configuration was
// loaded, and when that was. It also reports whether that may still be so later.
func (p *PolicyStats) TakeNeverMet(now time.Time, after time.Duration) (since time.Time, isDue, mayBeLater bool) {
	counts := p.Counts()
	switch {
	case counts.Met() > 0 || p.neverMetTaken.Load():
		return since, false, false
	case now.Sub(counts.Since) < after:
		return since, false, true
	}
	return counts.Since, p.neverMetTaken.CompareAndSwap(false, true), false
}

// Met counts all requests.
func (c *Counts) Met() int64 {
	met := c.DeniedByOthers
	for _, n := range c.Decisions {
		met += n
	}
	return met
}

// Counted counts the requests that passed, less those that count_if did not count, and those that only looked.
func (c *Counts) Counted() int64 {
	return max(0, c.Decisions[limiter.OutcomeAllowed]+c.Decisions[limiter.OutcomeDryAllowed]-c.NotMatched-c.Looked)
}

// totals returns what the policy has met.
func (p *PolicyStats) totals() (t totals) {
	t.requests, t.bans = p.deniedByOthers.Load(), p.bans.Load()
	p.eachDecision(func(o limiter.Outcome, requests int64) {
		t.requests += requests
		switch o {
		case limiter.OutcomeDenied:
			t.denied += requests
		case limiter.OutcomeDryDenied:
			t.wouldBeDenied += requests
		}
	})
	return t
}

// readings returns what the policies have met, for their history.
func (n *nameTable) readings() []reading {
	gauges := n.Gauges()
	n.mu.Lock()
	policies := slices.Collect(maps.Values(n.known))
	n.mu.Unlock()
	list := make([]reading, 0, len(policies))
	for _, p := range policies {
		list = append(list, reading{&p.track, p.totals(), gauges.Running[p.name], gauges.Waiting[p.name]})
	}
	return list
}

// Points returns the number of the last point, and the points behind a number, the oldest first. Each policy has equally
// many: at most [HistoryPoints]. A policy whose points are all empty is missing.
func (n *nameTable) Points(behind int64) (latest int64, of map[string][]Point) {
	n.mu.Lock()
	tracks := make(map[string]*track, len(n.known))
	for name, p := range n.known {
		tracks[name] = &p.track
	}
	n.mu.Unlock()
	return n.history.behind(behind, tracks)
}
