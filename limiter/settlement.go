package limiter

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"
)

// This file pays an outage back. While Redis does not decide, this process admits requests by itself.
// Redis is told of them when it decides again, each unit once:
//
//	0.0 s  Redis stops. The breaker opens. A client with 7 of 10 units left takes 5 of them here.
//	4.0 s  The breaker closes. The client's next request arrives. Its debt of 5 units leaves ahead of
//	       it in the same run of the script, which answers with the 2 units that are left.
//	4.1 s  The debts of other clients leave by and by, 128 of them every 250 ms.
//
// A debt raises a quota at most to its capacity: eight nodes that each admitted a whole limit would
// otherwise keep a client waiting for seven windows. Windows and buckets go on while Redis is away, so
// that a debt decays as the units in Redis would have. Of a bucket that means two states: `beyond` is
// what was last seen in Redis, and `all` that with what was admitted here; their difference is owed.

const (
	// settleSpan and settledPerSpan pace the debts that no request waits for, on each Redis.
	settleSpan     = 250 * time.Millisecond
	settledPerSpan = 128

	// settleScan is how many debts are looked at in a span.
	settleScan = 16 * settledPerSpan

	// ledgerShards is how many locks the debts are spread over.
	ledgerShards = 64
)

// ledger keeps what this process has admitted while the shared store did not decide.
type ledger struct {
	shared    *Redis
	local     *Memory // whose bound of keys it has
	clock     func(key string) (now, ahead int64)
	onSettled func(policy string, units int64)
	size      atomic.Int64
	running   atomic.Bool // the timer is set
	seed      maphash.Seed
	shards    [ledgerShards]ledgerShard
	next      int // the shard that the next span begins with; only the timer's function uses it
}

type ledgerShard struct {
	mu       sync.Mutex
	accounts map[quotaName]*account
}

// account is what one quota owes. Its shard's lock guards it. Its times are Redis's.
type account struct {
	policy      *Policy // of the last owedTake
	key         string
	all, beyond state
}

// owedTake identifies what a request has added to an account, so that it can be refunded.
type owedTake struct {
	account *account
	receipt receipt
}

func newLedger(shared *Redis, local *Memory, onSettled func(policy string, units int64)) *ledger {
	l := &ledger{shared: shared, local: local, onSettled: onSettled, seed: maphash.MakeSeed()}
	l.clock = l.redisTime
	for i := range l.shards {
		l.shards[i].accounts = map[quotaName]*account{}
	}
	return l
}

// isEmpty reports whether nothing is owed. A nil ledger is empty.
func (l *ledger) isEmpty() bool { return l == nil || l.size.Load() == 0 }

func (l *ledger) shardOf(key string) *ledgerShard {
	return &l.shards[maphash.String(l.seed, key)%ledgerShards]
}

// redisTime returns the time by the clock of a key's Redis, as far as known, and how far that is ahead of
// this process's clock, in microseconds.
func (l *ledger) redisTime(key string) (now, ahead int64) {
	slot := uint16(0)
	if l.shared.slotted.Load() {
		w := l.shared.writer()
		slot = w.keys.slotOf(key)
		l.shared.writers.Put(w)
	}
	offset, _ := l.shared.offset(slot)
	return l.local.clock() + offset.Microseconds(), offset.Microseconds()
}

// lastSeen returns Redis's last answer about a bucket that has no account. Windows and logs need none.
func (l *ledger) lastSeen(c *Check) (seen lastSeen) {
	if l == nil || !c.Policy.IsBucket() {
		return seen
	}
	s := l.local.lock(c.Policy, c.Key.text)
	defer s.mu.Unlock()
	return s.seen[c.Key.text]
}

// admit adds what a check took in this process, whose last answer by Redis is the one given. The reason
// says why Redis did not decide: where the request may have run all the same, Redis may have charged it,
// and nothing is owed for it.
func (l *ledger) admit(c *Check, seen lastSeen, reason error) {
	c.owed = nil
	if l == nil || c.Peek || Kind(reason) == "value" {
		return // a foreign value stays foreign
	}
	unknown := mayHaveRun(reason)
	if unknown && !c.Policy.IsBucket() {
		return // windows and logs do not owe less for what Redis has beside it
	}
	receipt, a := l.add(c, c.units(), seen, unknown)
	if c.Reserve && a != nil && !unknown {
		c.owed = &owedTake{a, receipt}
	}
}

// add adds units to the account of a check's quota, and to what is in Redis beyond it where Redis may
// have charged them: a bucket drains both together. It returns nil where there is no room for the account.
func (l *ledger) add(c *Check, units int64, seen lastSeen, unknown bool) (receipt, *account) {
	micros, ahead := l.clock(c.Key.text)
	p, name, s := c.Policy, quotaNameOf(c), l.shardOf(c.Key.text)
	now, kernel := micros/p.params.tick, p.algorithm.kernel
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.accounts[name]
	if a == nil {
		if l.size.Load() >= l.local.maxKeys.Load() {
			return receipt{}, nil
		}
		a = &account{key: c.Key.text}
		if p.IsBucket() {
			a.all.c = max(1, micros&serialMask) // refunds need a serial
		}
		s.accounts[name] = a
		l.size.Add(1)
		l.start()
	}
	a.policy = p
	if seen.resets += ahead; a.beyond == (state{}) && seen.resets > micros {
		a.begin(seen.restore(p, micros), now)
	}
	a.all = kernel.charge(a.all, now, &p.params, units)
	if unknown {
		a.beyond = kernel.charge(a.beyond, now, &p.params, units)
	}
	last := a.receipt(now)
	return last, a
}

// begin puts a bucket that was last seen in Redis beneath what was admitted here. Of requests at once
// the one that has seen it may come second.
func (a *account) begin(beyond state, now int64) {
	p := a.policy
	a.beyond = beyond
	serial := a.all.c
	admitted := p.algorithm.kernel.owed(a.all, state{}, now, &p.params)
	a.all = beyond
	a.all.c = serial
	for _, d := range admitted {
		a.all, _ = p.algorithm.kernel.settle(a.all, now, &p.params, d)
	}
}

// receipt returns the receipt of the last charge.
func (a *account) receipt(now int64) receipt {
	last := verdict{a: a.all.a, b: a.all.b, c: a.all.c}
	if log := a.all.log; log != nil {
		last.a = log.entries[len(log.entries)-1].tick(now)
	}
	return a.policy.algorithm.kernel.receipt(last)
}

// refund takes back what a check added, unless it was settled meanwhile.
func (l *ledger) refund(c *Check) {
	if l == nil || c.owed == nil {
		return
	}
	micros, _ := l.clock(c.Key.text)
	s := l.shardOf(c.Key.text)
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := c.owed.account; s.accounts[quotaNameOf(c)] == a {
		p := a.policy
		a.all = p.algorithm.kernel.refund(a.all, micros/p.params.tick, &p.params, c.units(), c.owed.receipt)
	}
}

// charge adds what a request turned out to cost.
func (l *ledger) charge(c *Check) {
	if l != nil {
		l.add(c, c.Weight, l.lastSeen(c), false)
	}
}

// settleAhead sends the debts of the checks' quotas, ahead of the checks themselves: the batcher keeps
// operations in the background ahead of requests of the same quota.
func (l *ledger) settleAhead(checks []Check) {
	for i := range checks {
		name, s := quotaNameOf(&checks[i]), l.shardOf(checks[i].Key.text)
		s.mu.Lock()
		a := s.accounts[name]
		s.mu.Unlock()
		if a == nil {
			continue
		}
		n, slot := l.nodeOf(a.key)
		if n.breaker.closed() && l.detach(s, name, a) {
			l.send(n, slot, a)
		}
	}
}

// detach removes an account if it is still the one of its quota, and reports whether it was.
func (l *ledger) detach(s *ledgerShard, name quotaName, a *account) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.accounts[name] != a {
		return false
	}
	l.drop(s, name)
	return true
}

// drop removes an account, if there is one. The shard's lock is held.
func (l *ledger) drop(s *ledgerShard, name quotaName) {
	if _, found := s.accounts[name]; found {
		delete(s.accounts, name)
		l.size.Add(-1)
	}
}

// nodeOf returns the node that decides a key, and its slot.
func (l *ledger) nodeOf(key string) (*node, uint16) {
	if !l.shared.slotted.Load() {
		return l.shared.topology.anyNode, 0
	}
	w := l.shared.writer()
	defer l.shared.writers.Put(w)
	slot := w.keys.slotOf(key)
	return l.shared.topology.to(slot), slot
}

// owed returns the debts of an account that nothing else changes any more.
func (l *ledger) owed(a *account) []debt {
	p := a.policy
	micros, _ := l.clock(a.key)
	return p.algorithm.kernel.owed(a.all, a.beyond, micros/p.params.tick, &p.params)
}

// send sends the debts of an account that was removed, and reports whether there were any. They return to
// the ledger if they have certainly not arrived. Debts that may have arrived are never sent again.
func (l *ledger) send(n *node, slot uint16, a *account) bool {
	debts := l.owed(a)
	if len(debts) == 0 {
		return false
	}
	checks := make([]Check, len(debts))
	for i, d := range debts {
		checks[i] = Check{Policy: a.policy, Key: EncodedKey{a.key}, receipt: receipt{d.at, d.amount}}
	}
	c := newCall(opSettle, checks)
	c.slot = slot
	err := n.background(c, func(c *call) {
		switch {
		case c.err == nil:
			units := int64(0)
			for i := range c.checks {
				units += c.checks[i].Result.Remaining
			}
			if l.onSettled != nil {
				l.onSettled(a.policy.Name(), units)
			}
		case mayHaveRun(c.err) || Kind(c.err) == "value":
			n.lose(opSettle, c.err)
		default:
			l.putBack(a, debts)
		}
	})
	if err != nil {
		l.putBack(a, debts)
	}
	return true
}

// putBack returns debts to the ledger that were not sent, or that Redis has refused.
func (l *ledger) putBack(a *account, debts []debt) {
	p, name, s := a.policy, quotaName{a.policy.id, a.key}, l.shardOf(a.key)
	micros, _ := l.clock(a.key)
	s.mu.Lock()
	defer s.mu.Unlock()
	newer := s.accounts[name]
	if newer == nil {
		s.accounts[name] = a
		l.size.Add(1)
		l.start()
		return
	}
	for _, d := range debts {
		newer.all, _ = p.algorithm.kernel.settle(newer.all, micros/p.params.tick, &p.params, d)
	}
}

// start sets the timer of the debts that no request waits for.
func (l *ledger) start() {
	if !l.running.Swap(true) {
		time.AfterFunc(settleSpan, l.settleSome)
	}
}

// settleSome sends some of the debts whose Redis decides, and drops some that have decayed: a long outage
// would otherwise fill all places with accounts of clients that owe nothing any more.
func (l *ledger) settleSome() {
	if l.shared.topology.life.Err() != nil {
		l.lose()
		return
	}
	sent := map[*node]int{}
	left := settleScan
	for range ledgerShards {
		if left <= 0 {
			break
		}
		left = l.settleShard(&l.shards[l.next%ledgerShards], sent, left)
		l.next++
	}
	l.running.Store(false)
	if !l.isEmpty() {
		l.start()
	}
}

// settleShard does so for a shard and returns how many more debts may be looked at. Finding a node may
// wait for a Cluster, so that no lock is held meanwhile.
func (l *ledger) settleShard(s *ledgerShard, sent map[*node]int, left int) int {
	for name, a := range s.some(left) {
		left--
		n, slot := l.nodeOf(a.key)
		switch {
		case !n.breaker.closed():
			l.dropDecayed(s, name, a)
		case sent[n] < settledPerSpan && l.detach(s, name, a) && l.send(n, slot, a):
			sent[n]++
		}
	}
	return left
}

// dropDecayed removes an account whose units are all free again. One that owes less than a unit stays, as
// the next ones add to it.
func (l *ledger) dropDecayed(s *ledgerShard, name quotaName, a *account) {
	micros, _ := l.clock(a.key)
	s.mu.Lock()
	defer s.mu.Unlock()
	p := a.policy
	now := micros / p.params.tick
	if s.accounts[name] == a && p.algorithm.kernel.expires(a.all, now, &p.params) <= now {
		l.drop(s, name)
	}
}

// some returns at most so many accounts of a shard.
func (s *ledgerShard) some(most int) map[quotaName]*account {
	s.mu.Lock()
	defer s.mu.Unlock()
	some := make(map[quotaName]*account, min(most, len(s.accounts)))
	for name, a := range s.accounts {
		if len(some) >= most {
			break
		}
		some[name] = a
	}
	return some
}

// forget drops the account of a key.
func (l *ledger) forget(p *Policy, key string) {
	if l.isEmpty() {
		return
	}
	s := l.shardOf(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	l.drop(s, quotaName{p.id, key})
}

// forgetAll drops the accounts of the policies of that name.
func (l *ledger) forgetAll(policy string) {
	if l.isEmpty() {
		return
	}
	for i := range l.shards {
		s := &l.shards[i]
		s.mu.Lock()
		for name, a := range s.accounts {
			if a.policy.Name() == policy {
				l.drop(s, name)
			}
		}
		s.mu.Unlock()
	}
}

// lose gives all debts up when the store has ended.
func (l *ledger) lose() {
	for i := range l.shards {
		s := &l.shards[i]
		s.mu.Lock()
		for name, a := range s.accounts {
			if l.drop(s, name); len(l.owed(a)) > 0 {
				l.shared.topology.anyNode.lose(opSettle, errClosed)
			}
		}
		s.mu.Unlock()
	}
}
