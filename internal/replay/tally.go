package replay

import (
	"cmp"
	"slices"
	"strings"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay/accesslog"
)

// tally collects decisions. Its memory grows with the number of clients.
type tally struct {
	result   Result
	policies []policyTally
	clients  map[string]bool // whether the client was denied
	timeline *timeline
	minute   bucket
	minuteAt int64 // its number since the Unix epoch
}

// policyTally collects the decisions of one policy.
type policyTally struct {
	result  PolicyResult
	clients map[string]*clientTally
	running *running // nil unless the policy counts requests that run

	units    Units
	weighted bool // a request has another weight than 1
}

// clientTally collects the decisions on one key.
type clientTally struct {
	requests, denied int64
	firstDenied      int64
	streak, longest  streak
}

// streak is a stretch of refusals without an admitted request between. Times are microseconds.
type streak struct{ began, ended, denied int64 }

func newTally(policies []PolicyResult) *tally {
	t := &tally{clients: map[string]bool{}, timeline: &timeline{series: make([][]counts, len(policies)+1)}}
	for _, p := range policies {
		tally := policyTally{result: p, clients: map[string]*clientTally{}}
		if p.CountsRunning() {
			tally.running = newRunning()
		}
		t.policies = append(t.policies, tally)
	}
	return t
}

// add collects the decision about an entry's request.
func (t *tally) add(e *accesslog.Entry, v *Decision) {
	r := &t.result
	if r.Requests == 0 {
		r.First = instant(e.Time)
	}
	r.Requests++
	r.Last = instant(e.Time)
	denied := int64(0)
	switch v.Outcome {
	case limiter.OutcomeDenied:
		denied = 1
	case limiter.OutcomeExempt:
		r.Exempt++
	case limiter.OutcomeUnlimited:
		r.Unlimited++
	case limiter.OutcomeRejected:
		r.Rejected++
	case limiter.OutcomeUnplayable:
		r.Unplayable++
	}
	r.Denied += denied
	t.addClient(e.Client, denied == 1)
	t.addMinute(e.Time, denied)
	place := t.timeline.at(e.Time)
	count(&t.timeline.series[0][place], denied)
	for i := range v.Policies {
		t.addDecision(e, place, &v.Policies[i])
	}
}

func count(m *counts, denied int64) {
	m.requests++
	m.denied += denied
}

func (t *tally) addClient(client string, denied bool) {
	before, known := t.clients[client]
	switch {
	case !known:
		t.clients[strings.Clone(client)] = denied // the key is part of a line
	case denied && !before:
		t.clients[client] = true
	}
}

func (t *tally) addMinute(micros, denied int64) {
	const length = 60_000_000
	if number := micros / length; number != t.minuteAt {
		t.minuteAt, t.minute = number, bucket{Begins: instant(number * length)}
	}
	t.minute.Requests++
	t.minute.Denied += denied
	if t.minute.Requests > t.result.Peak.Requests {
		t.result.Peak = t.minute
	}
}

// addDecision collects the decision of a policy.
func (t *tally) addDecision(e *accesslog.Entry, place int, d *PolicyDecision) {
	p := &t.policies[d.Policy]
	if d.EmptyKey {
		p.result.EmptyKeys++
	}
	if d.LeftOut {
		return
	}
	denied := int64(0)
	if d.Denied {
		denied = 1
	}
	p.result.Requests++
	p.result.Denied += denied
	p.units.add(d)
	p.weighted = p.weighted || d.Weight != 1
	count(&t.timeline.series[d.Policy+1][place], denied)
	c := p.clients[d.Key]
	if c == nil {
		c = new(clientTally)
		p.clients[strings.Clone(d.Key)] = c
	}
	c.add(e.Time, d.Denied)
	if p.running != nil {
		p.running.add(d.Key, e.Time, e.Ends, d.Weight)
	}
}

// add collects one decision on the key.
func (c *clientTally) add(micros int64, denied bool) {
	c.requests++
	if !denied {
		c.streak = streak{}
		return
	}
	if c.denied == 0 {
		c.firstDenied = micros
	}
	c.denied++
	if c.streak.denied == 0 {
		c.streak.began = micros
	}
	c.streak.ended = micros
	c.streak.denied++
	lasted, longest := c.streak.ended-c.streak.began, c.longest.ended-c.longest.began
	if lasted > longest || (lasted == longest && c.streak.denied > c.longest.denied) {
		c.longest = c.streak
	}
}

// finish returns the result, with so many of the worst keys of each policy.
func (t *tally) finish(worst int) *Result {
	r := &t.result
	r.Clients, r.NoAddresses.Examples = len(t.clients), []string{}
	for client, denied := range t.clients {
		if denied {
			r.ClientsDenied++
		}
		r.NoAddresses.add(client)
	}
	r.Timeline, r.Step = t.timeline.buckets(0), steps[t.timeline.step]
	for i := range t.policies {
		p := t.policies[i].finish(worst)
		p.Timeline = t.timeline.buckets(i + 1)
		r.Policies = append(r.Policies, p)
	}
	return r
}

// shownNoAddresses is how many clients are shown that are no addresses.
const shownNoAddresses = 3

// add counts a client that is no address, and keeps the first in the order of texts.
func (n *noAddresses) add(client string) {
	if client == "" || accesslog.IsAddress(client) {
		return
	}
	n.Clients++
	at, _ := slices.BinarySearch(n.Examples, client)
	n.Examples = slices.Insert(n.Examples, at, client)
	n.Examples = n.Examples[:min(shownNoAddresses, len(n.Examples))]
}

// finish returns the policy's result.
func (p *policyTally) finish(worst int) PolicyResult {
	r := p.result
	if p.weighted || r.Set("cost") != "" { // otherwise they say no more than the requests do
		r.Units = &p.units
	}
	r.Clients = len(p.clients)
	r.Worst = []clientResult{}
	for key, c := range p.clients {
		if c.denied == 0 {
			continue
		}
		r.ClientsDenied++
		r.Worst = append(r.Worst, c.result(key))
	}
	slices.SortFunc(r.Worst, func(a, b clientResult) int {
		return cmp.Or(cmp.Compare(b.Denied, a.Denied), strings.Compare(a.Key, b.Key))
	})
	r.Worst = slices.Clone(r.Worst[:min(worst, len(r.Worst))])
	if p.running != nil {
		r.Running = p.running.result(worst, r.MaxConcurrent)
	}
	return r
}

func (c *clientTally) result(key string) clientResult {
	return clientResult{
		Key: key, Requests: c.requests, Denied: c.denied, FirstDenied: instant(c.firstDenied),
		LongestBegan: instant(c.longest.began), LongestDenied: c.longest.denied,
		LongestLasted: instant(c.longest.ended).Sub(instant(c.longest.began)),
	}
}
