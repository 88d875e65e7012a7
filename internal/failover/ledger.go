package failover

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/kernel"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/memory"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redis"
)

// This file pays an outage back, by accounts. While Redis does not decide, this process admits requests by itself.
// When Redis decides again, this process charges them there, each unit once:
//
//	0.0 s  Redis stops. The breaker opens. A client with 7 of 10 units left takes 5 of them here.
//	4.0 s  The breaker closes. The client's next request arrives. Its debt of 5 units leaves ahead of
//	       it in the same run of the script, which answers with the 2 units that are left.
//	4.1 s  The debts of other clients leave in the background, 128 of them every 250 ms.
//
// Redis adds a debt only up to the capacity of the quota: eight nodes that each admitted a whole limit would
// otherwise keep a client waiting for seven windows. Windows end and buckets drain while Redis is away, so a debt
// decays as the units in Redis would have. For a bucket that takes two states: `inRedis` is what was last seen in
// Redis, and `total` is the same with what was admitted here. Their difference is owed.

const (
	// repaySpan and repaidPerSpan pace the debts that no request waits for, on each Redis.
	repaySpan     = 250 * time.Millisecond
	repaidPerSpan = 128

	// repayScan is how many debts are looked at in a span.
	repayScan = 16 * repaidPerSpan
)

// ledger keeps what this process has admitted while the shared store did not decide.
type ledger struct {
	shared   *redis.Store
	local    *memory.Store // whose bound of keys it has
	clock    func(key string) (now, ahead int64)
	onRepaid func(policy string, units int64)
	size     atomic.Int64
	repays   clock.Task // sends the debts that no request waits for
	shards   limiter.Shards[ledgerShard]
	next     int // the shard that the next span begins with; only repays uses it
}

type ledgerShard struct {
	mu       sync.Mutex
	accounts map[limiter.QuotaName]*account
}

// account is what one quota owes. Its shard's lock guards it. Its times are Redis's.
type account struct {
	policy  *limiter.Policy // of the last take
	key     string
	total   kernel.State // all that this node knows to be taken
	inRedis kernel.State // of that, what Redis has
}

// owedTake identifies what a request has added to an account, so that it can be refunded.
type owedTake struct {
	account *account // nil: nothing
	receipt kernel.Receipt
}

// owe notes in a check what it has added to an account.
func owe(c *limiter.Check, take owedTake) {
	p := pendingOf(c)
	if p == nil {
		p = &pending{}
		c.State.Owner = p
	}
	p.owed = take
}

func newLedger(shared *redis.Store, local *memory.Store, onRepaid func(policy string, units int64)) *ledger {
	l := &ledger{shared: shared, local: local, onRepaid: onRepaid}
	l.clock, l.repays.Run = l.redisTime, l.repaySome
	for s := range l.shards.All() {
		s.accounts = map[limiter.QuotaName]*account{}
	}
	return l
}

// isEmpty reports whether nothing is owed. A nil ledger is empty.
func (l *ledger) isEmpty() bool { return l == nil || l.size.Load() == 0 }

// redisTime returns the time by the clock of a key's Redis, as far as known, and how far that is ahead of
// this process's clock, in microseconds.
func (l *ledger) redisTime(key string) (now, ahead int64) {
	offset, _ := l.shared.Offset(l.shared.SlotOf(limiter.AsEncoded(key)))
	return l.local.Clock() + offset.Microseconds(), offset.Microseconds()
}

// lastSeen returns Redis's last answer about a bucket that has no account. Windows and logs need none.
func (l *ledger) lastSeen(c *limiter.Check) (seen memory.LastSeen) {
	if l == nil || !c.Policy.IsBucket() {
		return seen
	}
	s := l.local.Lock(c.Policy, c.Key.String())
	defer s.Mu.Unlock()
	return s.Seen[c.Key.String()]
}

// admit adds to the ledger what a check took in this process, beside the last answer of Redis about its quota. The
// reason says why Redis did not decide: if the request may have run there after all, Redis may have charged it, and
// nothing is owed for it.
func (l *ledger) admit(c *limiter.Check, seen memory.LastSeen, reason error) {
	if l == nil || !c.Takes() || c.Policy.CountsRunning || limiter.Kind(reason) == "value" {
		return // the key holds a value that is not ours; nothing is ever written to it
	}
	unknown := redis.MayHaveRun(reason)
	if unknown && !c.Policy.IsBucket() {
		return // windows and logs do not owe less for what Redis has beside it
	}
	receipt, a := l.add(c, limiter.Units(c), seen, unknown)
	if c.Refundable && a != nil && !unknown {
		owe(c, owedTake{a, receipt})
	}
}

// add adds units to the account of a check's quota. If it is unknown whether Redis has charged them, they count as
// charged there too: a bucket drains both states together. Without room for the account add returns nil.
func (l *ledger) add(c *limiter.Check, units int64, seen memory.LastSeen, unknown bool) (kernel.Receipt, *account) {
	micros, ahead := l.clock(c.Key.String())
	p, name, s := c.Policy, limiter.QuotaNameOf(c), l.shards.Of(c.Key.String())
	now, k := micros/p.Params.Tick, p.Algorithm.Kernel
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.accounts[name]
	if a == nil {
		if l.size.Load() >= l.local.MaxKeys.Load() {
			return kernel.Receipt{}, nil
		}
		a = &account{key: c.Key.String()}
		if p.Algorithm.Bursts {
			a.total = a.total.WithSerial(max(1, micros&kernel.SerialMask)) // refunds need one
		}
		s.accounts[name] = a
		l.size.Add(1)
		l.repays.Start(repaySpan)
	}
	a.policy = p
	if seen = seen.Ahead(ahead); a.inRedis == (kernel.State{}) && seen.Resets > micros {
		a.begin(seen.Restore(p, micros), now)
	}
	a.total = k.Charge(a.total, now, &p.Params, units)
	if unknown {
		a.inRedis = k.Charge(a.inRedis, now, &p.Params, units)
	}
	return p.LastReceipt(a.total, now), a
}

// begin puts the bucket that was last seen in Redis beneath what was admitted here. Of two requests at the same time the
// one that knows what was last seen may come second.
func (a *account) begin(inRedis kernel.State, now int64) {
	p := a.policy
	a.inRedis = inRedis
	k, t := p.Algorithm.Kernel, &p.Params
	admitted := k.Owed(a.total, kernel.State{}, now, t)
	a.total = inRedis.WithSerial(a.total.Serial())
	for _, d := range admitted {
		a.total, _ = k.Repay(a.total, now, t, d)
	}
}

// correct charges the units that a check cost beyond what it took, and reports whether the ledger had room for them.
// Units below 0 are a refund: they leave the account, unless they were repaid meanwhile.
func (l *ledger) correct(c *limiter.Check, units int64) (kept bool) {
	switch {
	case l == nil || units == 0:
		return false
	case units > 0:
		_, a := l.add(c, units, l.lastSeen(c), false)
		return a != nil
	}
	taken := pendingOf(c)
	if taken == nil || taken.owed.account == nil {
		return false
	}
	micros, _ := l.clock(c.Key.String())
	s := l.shards.Of(c.Key.String())
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := taken.owed.account; s.accounts[limiter.QuotaNameOf(c)] == a {
		k, t := a.policy.Algorithm.Kernel, &a.policy.Params
		a.total = k.Refund(a.total, micros/t.Tick, t, limiter.Units(c), -units, taken.owed.receipt)
	}
	return true
}

// drop removes an account, if there is one. The shard's lock is held.
func (l *ledger) drop(s *ledgerShard, name limiter.QuotaName) {
	if _, found := s.accounts[name]; found {
		delete(s.accounts, name)
		l.size.Add(-1)
	}
}

// owed returns the debts of an account. Nothing else may change the account meanwhile.
func (l *ledger) owed(a *account) []kernel.Debt {
	p := a.policy
	micros, _ := l.clock(a.key)
	return p.Algorithm.Kernel.Owed(a.total, a.inRedis, micros/p.Params.Tick, &p.Params)
}

// forget drops the account of a key.
func (l *ledger) forget(p *limiter.Policy, key string) {
	if l.isEmpty() {
		return
	}
	s := l.shards.Of(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	l.drop(s, limiter.QuotaName{Policy: p.ID, Key: key})
}

// forgetAll drops the accounts of the policies of that name.
func (l *ledger) forgetAll(policy string) {
	if l.isEmpty() {
		return
	}
	for s := range l.shards.All() {
		s.mu.Lock()
		for name, a := range s.accounts {
			if a.policy.Name() == policy {
				l.drop(s, name)
			}
		}
		s.mu.Unlock()
	}
}

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
		answer, unsent := e.Answer(), notExecuted(e)
		switch {
		case unsent != nil:
			l.putBack(a, unsent.Changes)
		case answer == nil:
			n.Lose(e.Err())
		case l.onRepaid != nil:
			l.onRepaid(a.policy.Name(), answer.Added())
		}
	})
	return true
}

// notExecuted returns the payload of a call that Redis certainly did not run and may run later; nil otherwise. A call on
// a foreign value is not run later: the key holds a value that is not ours.
func notExecuted(e redis.Ended) *redis.Payload {
	if limiter.Kind(e.Err()) == "value" {
		return nil
	}
	return e.Unsent()
}

// putBack returns debts to the ledger that were not sent, or that Redis has refused.
func (l *ledger) putBack(a *account, debts []redis.Change) {
	p, name, s := a.policy, limiter.QuotaName{Policy: a.policy.ID, Key: a.key}, l.shards.Of(a.key)
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
		newer.total, _ = p.Algorithm.Kernel.Repay(newer.total, micros/p.Params.Tick, &p.Params, d.Debt)
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
	for range limiter.ShardCount {
		if left <= 0 {
			break
		}
		left = l.repayShard(&l.shards[l.next%limiter.ShardCount], sent, left)
		l.next++
	}
	if !l.isEmpty() {
		l.repays.Start(repaySpan)
	}
}

// repayShard sends some debts of a shard and returns how many more debts may be looked at. Finding a node may wait for
// a Cluster, so that no lock is held meanwhile.
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
	now := micros / p.Params.Tick
	if s.accounts[name] == a && p.Algorithm.Kernel.Expires(a.total, now, &p.Params) <= now {
		l.drop(s, name)
	}
}

// some returns accounts of a shard, not more than the given number.
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

// lose drops all debts when the store has ended. Each debt is counted as lost before it leaves the ledger.
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
