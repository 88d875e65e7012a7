package storetest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// This file has the operations of the conformance suite on reserved units.

// reserveBoth makes a take that can be refunded in all stores.
func reserveBoth(t *testing.T, tr *Trace, stores []*Candidate) {
	t.Helper()
	request := slices.DeleteFunc(tr.request(), func(c limiter.Check) bool { return c.Peek })
	if len(request) == 0 {
		return
	}
	for i := range request {
		request[i].Refundable = true
	}
	tr.note("reserve", request)
	answers := make([][]limiter.Check, len(stores))
	for i, s := range stores {
		s.SetClock(tr.Now)
		answers[i] = slices.Clone(request)
		s.Request(t, answers[i]...)
	}
	compare(t, tr, stores, answers)
	if limiter.Allowed(answers[0]) {
		tr.reserved = append(tr.reserved, answers)
	}
}

// refundBoth undoes one of the takes made so far in all stores: often one of the last, whose units are
// still there, with others reserved before and after it.
func refundBoth(tr *Trace, stores []*Candidate) {
	reserved := tr.oneReserved()
	if reserved != nil {
		tr.note("refund", reserved[0])
	}
	for i, checks := range reserved {
		stores[i].SetClock(tr.Now)
		stores[i].Refund(checks)
	}
}

// settleCostBoth settles one of the takes made so far in all stores: to less than was taken, or rarely to
// more.
func settleCostBoth(tr *Trace, stores []*Candidate) {
	reserved := tr.oneReserved()
	if reserved == nil {
		return
	}
	var costs []int64
	for _, c := range reserved[0] {
		cost := tr.Random.Int64N(limiter.Units(&c) + 1)
		if tr.Random.IntN(10) == 0 {
			cost += limiter.Units(&c)
		}
		costs = append(costs, cost)
	}
	tr.note(fmt.Sprintf("settle to %d", costs), reserved[0])
	for i, checks := range reserved {
		stores[i].SetClock(tr.Now)
		for j := range checks {
			stores[i].SettleCost(checks[j], costs[j])
		}
	}
}

// oneReserved removes one of the takes made so far, by store; nil without any.
func (tr *Trace) oneReserved() [][]limiter.Check {
	if len(tr.reserved) == 0 {
		return nil
	}
	at := tr.Random.IntN(len(tr.reserved))
	if tr.Random.IntN(2) == 0 {
		at = max(at, len(tr.reserved)-1-tr.Random.IntN(3))
	}
	r := tr.reserved[at]
	tr.reserved = slices.Delete(tr.reserved, at, at+1)
	return r
}

// confirmBoth counts one of the last takes that can be refunded in all stores.
func confirmBoth(tr *Trace, stores []*Candidate) {
	if len(tr.reserved) == 0 {
		return
	}
	at := max(0, len(tr.reserved)-1-tr.Random.IntN(3))
	r := tr.reserved[at]
	tr.reserved = slices.Delete(tr.reserved, at, at+1)
	tr.note("confirm", r[0])
	for i, s := range stores {
		s.SetClock(tr.Now)
		s.Keep(r[i])
	}
}
