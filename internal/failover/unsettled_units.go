package failover

import (
	"sync"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// refundWait is the RetryAfter of a denial that a refund may end.
const refundWait = time.Second

// unsettled counts, for each quota, the units that requests of this node have taken and may still refund.
type unsettled struct {
	shards limiter.Shards[unsettledShard]
}

type unsettledShard struct {
	mu     sync.Mutex
	quotas map[limiter.QuotaName]unsettledQuota // nil before the first
}

// unsettledQuota is the unsettled units of one quota.
type unsettledQuota struct {
	units   int64
	until   clock.Moment // from when none of them is left in the quota, settled or not
	looking int64        // units that were not taken, and may still be charged: see looks.go
}

// taken returns the units that may still be refunded at a moment.
func (q *unsettledQuota) taken(now clock.Moment) int64 {
	if q.until <= now {
		return 0
	}
	return q.units
}

// add adds to what is unsettled of a check's quota. The units are forgotten at the given time, if that is not 0.
func (u *unsettled) add(c *limiter.Check, more unsettledQuota) {
	s, name := u.shards.Of(c.Key.String()), limiter.QuotaNameOf(c)
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.quotas[name]
	q.units, q.looking, q.until = q.units+more.units, q.looking+more.looking, max(q.until, more.until)
	s.put(name, q)
}

// put stores what is unsettled of a quota. The shard's lock is held.
func (s *unsettledShard) put(name limiter.QuotaName, q unsettledQuota) {
	if q.units <= 0 && q.looking <= 0 {
		delete(s.quotas, name)
		return
	}
	if s.quotas == nil {
		s.quotas = map[limiter.QuotaName]unsettledQuota{}
	}
	s.quotas[name] = q
}

// of returns the unsettled units of a check's quota that may still be refunded at a moment.
func (u *unsettled) of(c *limiter.Check, now clock.Moment) int64 {
	q := u.at(c)
	return q.taken(now)
}

// at returns what is unsettled of a check's quota.
func (u *unsettled) at(c *limiter.Check) unsettledQuota {
	s := u.shards.Of(c.Key.String())
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.quotas[limiter.QuotaNameOf(c)]
}
