package failover

import (
	"slices"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/decision"
)

// This file has the operations of the conformance suite on reserved units.

// reserveBoth makes a take that can be refunded in all stores.
func reserveBoth(t *testing.T, tr *trace, stores []*testStore) {
	t.Helper()
	request := slices.DeleteFunc(tr.request(), func(c limiter.Check) bool { return c.Peek })
	if len(request) == 0 {
		return
	}
	for i := range request {
		request[i].Refundable = true
	}
	answers := make([][]limiter.Check, len(stores))
	for i, s := range stores {
		s.set(tr.now)
		answers[i] = slices.Clone(request)
		s.decide(t, answers[i])
	}
	compare(t, tr, stores, answers)
	if limiter.Allowed(answers[0]) {
		tr.reserved = append(tr.reserved, answers)
	}
}

// refundBoth undoes one of the takes made so far in all stores: often one of the last, whose units are
// still there, with others reserved before and after it.
func refundBoth(tr *trace, stores []*testStore) {
	for i, checks := range tr.oneReserved() {
		stores[i].set(tr.now)
		stores[i].refund(checks)
	}
}

// settleCostBoth settles one of the takes made so far in all stores: to less than was taken, or rarely to
// more.
func settleCostBoth(tr *trace, stores []*testStore) {
	reserved := tr.oneReserved()
	if reserved == nil {
		return
	}
	var costs []int64
	for _, c := range reserved[0] {
		cost := tr.random.Int64N(decision.Units(&c) + 1)
		if tr.random.IntN(10) == 0 {
			cost += decision.Units(&c)
		}
		costs = append(costs, cost)
	}
	for i, checks := range reserved {
		stores[i].set(tr.now)
		for j := range checks {
			stores[i].settleCost(checks[j], costs[j])
		}
	}
}

// oneReserved removes one of the takes made so far, by store; nil without any.
func (tr *trace) oneReserved() [][]limiter.Check {
	if len(tr.reserved) == 0 {
		return nil
	}
	at := tr.random.IntN(len(tr.reserved))
	if tr.random.IntN(2) == 0 {
		at = max(at, len(tr.reserved)-1-tr.random.IntN(3))
	}
	r := tr.reserved[at]
	tr.reserved = slices.Delete(tr.reserved, at, at+1)
	return r
}

// confirmBoth counts one of the last takes that can be refunded in all stores.
func confirmBoth(tr *trace, stores []*testStore) {
	if len(tr.reserved) == 0 {
		return
	}
	at := max(0, len(tr.reserved)-1-tr.random.IntN(3))
	r := tr.reserved[at]
	tr.reserved = slices.Delete(tr.reserved, at, at+1)
	for i, s := range stores {
		s.set(tr.now)
		keepAll(s.Store, r[i], s.source)
		s.settle()
	}
}
