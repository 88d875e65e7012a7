package failover

import (
	"sync"
	"sync/atomic"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/kernel"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/memory"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redis"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/wire"
)

// ledger keeps what this process has admitted while the shared store did not decide.
type ledger struct {
	shared   *redis.Store
	local    *memory.Store // whose bound of keys it has
	clock    func(key string) (now, ahead int64)
	onRepaid func(policy string, units int64)
	size     atomic.Int64
	repays   clock.Task // sends the debts that no request waits for
	shards   limiter.Set[ledgerShard]
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

// owe keeps what a check has added.
func owe(c *limiter.Check, take owedTake) {
	p := pendingOf(c)
	if p == nil {
		p = &pending{}
		limiter.Kept(c).Held = p
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

// admit adds what a check took in this process, whose last answer by Redis is the one given. The reason
// says why Redis did not decide: where the request may have run all the same, Redis may have charged it,
// and nothing is owed for it.
func (l *ledger) admit(c *limiter.Check, seen memory.LastSeen, reason error) {
	if l == nil || c.Peek || c.Policy.CountsRunning() || limiter.Kind(reason) == "value" {
		return // a foreign value stays foreign
	}
	unknown := wire.MayHaveRun(reason)
	if unknown && !c.Policy.IsBucket() {
		return // windows and logs do not owe less for what Redis has beside it
	}
	receipt, a := l.add(c, limiter.Units(c), seen, unknown)
	if c.Refundable && a != nil && !unknown {
		owe(c, owedTake{a, receipt})
	}
}

// add adds units to the account of a check's quota, and to what is in Redis where Redis may
// have charged them: a bucket drains both together. It returns nil where there is no room for the account.
func (l *ledger) add(c *limiter.Check, units int64, seen memory.LastSeen, unknown bool) (kernel.Receipt, *account) {
	micros, ahead := l.clock(c.Key.String())
	p, name, s := c.Policy, limiter.QuotaNameOf(c), l.shards.Of(c.Key.String())
	now, k := micros/p.Rule().Params.Tick, p.Rule().Algorithm.Kernel
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.accounts[name]
	if a == nil {
		if l.size.Load() >= l.local.MaxKeys.Load() {
			return kernel.Receipt{}, nil
		}
		a = &account{key: c.Key.String()}
		if p.Rule().Algorithm.Bursts {
			a.total = a.total.WithSerial(max(1, micros&kernel.SerialMask)) // refunds need one
		}
		s.accounts[name] = a
		l.size.Add(1)
		l.repays.Start(repaySpan)
	}
	a.policy = p
	if seen.Resets += ahead; a.inRedis == (kernel.State{}) && seen.Resets > micros {
		a.begin(seen.Restore(p, micros), now)
	}
	a.total = k.Charge(a.total, now, &p.Rule().Params, units)
	if unknown {
		a.inRedis = k.Charge(a.inRedis, now, &p.Rule().Params, units)
	}
	return p.Rule().LastReceipt(a.total, now), a
}

// begin puts a bucket that was last seen in Redis beneath what was admitted here. Of requests at once
// the one that has seen it may come second.
func (a *account) begin(inRedis kernel.State, now int64) {
	p := a.policy
	a.inRedis = inRedis
	admitted := p.Rule().Algorithm.Kernel.Owed(a.total, kernel.State{}, now, &p.Rule().Params)
	a.total = inRedis.WithSerial(a.total.Serial())
	for _, d := range admitted {
		a.total, _ = p.Rule().Algorithm.Kernel.Repay(a.total, now, &p.Rule().Params, d)
	}
}

// correct charges units that a check cost beyond what it took, and reports whether there was room for them; or, below
// 0, it takes back what the check added too much, unless that was repaid meanwhile.
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
		p := a.policy
		a.total = p.Rule().Algorithm.Kernel.Refund(a.total, micros/p.Rule().Params.Tick, &p.Rule().Params, limiter.Units(c), -units, taken.owed.receipt)
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

// owed returns the debts of an account that nothing else changes any more.
func (l *ledger) owed(a *account) []kernel.Debt {
	p := a.policy
	micros, _ := l.clock(a.key)
	return p.Rule().Algorithm.Kernel.Owed(a.total, a.inRedis, micros/p.Rule().Params.Tick, &p.Rule().Params)
}

// forget drops the account of a key.
func (l *ledger) forget(p *limiter.Policy, key string) {
	if l.isEmpty() {
		return
	}
	s := l.shards.Of(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	l.drop(s, limiter.QuotaName{Policy: p.Rule().ID, Key: key})
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
