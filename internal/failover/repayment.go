package failover

import (
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redis"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/wire"
)

// This file pays an outage back, by the accounts of ledger.go. While Redis does not decide, this
// process admits requests by itself. Redis is told of them when it decides again, each unit once:
//
//	0.0 s  Redis stops. The breaker opens. A client with 7 of 10 units left takes 5 of them here.
//	4.0 s  The breaker closes. The client's next request arrives. Its debt of 5 units leaves ahead of
//	       it in the same run of the script, which answers with the 2 units that are left.
//	4.1 s  The debts of other clients leave by and by, 128 of them every 250 ms.
//
// A debt raises a quota at most to its capacity: eight nodes that each admitted a whole limit would
// otherwise keep a client waiting for seven windows. Windows and buckets go on while Redis is away, so
// that a debt decays as the units in Redis would have. Of a bucket that means two states: `inRedis` is
// what was last seen in Redis, and `total` that with what was admitted here; their difference is owed.

const (
	// repaySpan and repaidPerSpan pace the debts that no request waits for, on each Redis.
	repaySpan     = 250 * time.Millisecond
	repaidPerSpan = 128

	// repayScan is how many debts are looked at in a span.
	repayScan = 16 * repaidPerSpan
)

// repayAhead sends the debts of the checks' quotas, ahead of the checks themselves: the batcher keeps
// operations in the background ahead of requests of the same quota.
func (l *ledger) repayAhead(checks []limiter.Check) {
	for i := range checks {
		name, s := limiter.QuotaNameOf(&checks[i]), l.shards.Of(checks[i].Key.String())
		s.mu.Lock()
		a := s.accounts[name]
		s.mu.Unlock()
		if a == nil {
			continue
		}
		n, slot := l.shared.NodeOf(limiter.AsEncoded(a.key))
		if n.Decides() && l.detach(s, name, a) {
			l.send(n, slot, a)
		}
	}
}

// detach removes an account if it is still the one of its quota, and reports whether it was.
func (l *ledger) detach(s *ledgerShard, name limiter.QuotaName, a *account) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.accounts[name] != a {
		return false
	}
	l.drop(s, name)
	return true
}

// send sends the debts of an account that was removed, and reports whether there were any. They return to
// the ledger if they have certainly not arrived. Debts that may have arrived are never sent again.
func (l *ledger) send(n *redis.Node, slot uint16, a *account) bool {
	debts := l.owed(a)
	if len(debts) == 0 {
		return false
	}
	c := redis.NewRepayment(a.policy, limiter.AsEncoded(a.key), debts)
	c.Slot = slot
	n.Background(c, func(e redis.Ended) {
		answer, undone := e.Answer(), undone(e)
		switch {
		case undone != nil:
			l.putBack(a, undone.Changes)
		case answer == nil:
			n.Lose(e.Err())
		case l.onRepaid != nil:
			l.onRepaid(a.policy.Name(), answer.Added())
		}
	})
	return true
}

// undone returns what Redis has certainly not done and may do later; nil: nothing. A foreign value stays foreign.
func undone(e redis.Ended) *wire.Payload {
	if limiter.Kind(e.Err()) == "value" {
		return nil
	}
	return e.Unsent()
}

// putBack returns debts to the ledger that were not sent, or that Redis has refused.
func (l *ledger) putBack(a *account, debts []wire.Change) {
	p, name, s := a.policy, limiter.QuotaName{Policy: a.policy.Rule().ID, Key: a.key}, l.shards.Of(a.key)
	micros, _ := l.clock(a.key)
	s.mu.Lock()
	defer s.mu.Unlock()
	newer := s.accounts[name]
	if newer == nil {
		s.accounts[name] = a
		l.size.Add(1)
		l.repays.Start(repaySpan)
		return
	}
	for _, d := range debts {
		newer.total, _ = p.Rule().Algorithm.Kernel.Repay(newer.total, micros/p.Rule().Params.Tick, &p.Rule().Params, d.Debt)
	}
}

// repaySome sends some of the debts whose Redis decides, and drops some that have decayed: a long outage
// would otherwise fill all places with accounts of clients that owe nothing any more.
func (l *ledger) repaySome() {
	if l.shared.Topology.Life.Err() != nil {
		l.lose()
		return
	}
	sent := map[*redis.Node]int{}
	left := repayScan
	for range limiter.Count {
		if left <= 0 {
			break
		}
		left = l.repayShard(&l.shards[l.next%limiter.Count], sent, left)
		l.next++
	}
	if !l.isEmpty() {
		l.repays.Start(repaySpan)
	}
}

// repayShard does so for a shard and returns how many more debts may be looked at. Finding a node may
// wait for a Cluster, so that no lock is held meanwhile.
func (l *ledger) repayShard(s *ledgerShard, sent map[*redis.Node]int, left int) int {
	for name, a := range s.some(left) {
		left--
		n, slot := l.shared.NodeOf(limiter.AsEncoded(a.key))
		switch {
		case !n.Decides():
			l.dropDecayed(s, name, a)
		case sent[n] < repaidPerSpan && l.detach(s, name, a) && l.send(n, slot, a):
			sent[n]++
		}
	}
	return left
}

// dropDecayed removes an account whose units are all free again. One that owes less than a unit stays, as
// the next ones add to it.
func (l *ledger) dropDecayed(s *ledgerShard, name limiter.QuotaName, a *account) {
	micros, _ := l.clock(a.key)
	s.mu.Lock()
	defer s.mu.Unlock()
	p := a.policy
	now := micros / p.Rule().Params.Tick
	if s.accounts[name] == a && p.Rule().Algorithm.Kernel.Expires(a.total, now, &p.Rule().Params) <= now {
		l.drop(s, name)
	}
}

// some returns at most so many accounts of a shard.
func (s *ledgerShard) some(most int) map[limiter.QuotaName]*account {
	s.mu.Lock()
	defer s.mu.Unlock()
	some := make(map[limiter.QuotaName]*account, min(most, len(s.accounts)))
	for name, a := range s.accounts {
		if len(some) >= most {
			break
		}
		some[name] = a
	}
	return some
}

// lose gives all debts up when the store has ended. Each is counted as lost before it is no longer owed.
func (l *ledger) lose() {
	for s := range l.shards.All() {
		s.mu.Lock()
		for name, a := range s.accounts {
			if len(l.owed(a)) > 0 {
				l.shared.Topology.AnyNode.Lose(limiter.ErrClosed)
			}
			l.drop(s, name)
		}
		s.mu.Unlock()
	}
}
