package failover

import (
	"sync"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/memory"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redis"
)

// denyRefresher queries denials again before they expire from the cache, many at once and in the
// background. A refused flood costs a few batches a second; otherwise each of its clients would cost a
// request of its own.
type denyRefresher struct {
	shared *redis.Store
	denied *cache
	local  *memory.Store
	span   time.Duration // how long checks are collected
	task   clock.Task    // runs refresh

	mu  sync.Mutex
	due []limiter.Check
}

// add collects a check for the next refresh.
func (d *denyRefresher) add(check limiter.Check) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.due = append(d.due, check)
	d.task.Start(d.span)
}

// refresh queries all checks that are due. A denial without an answer expires in its time.
func (d *denyRefresher) refresh() {
	d.mu.Lock()
	due := d.due
	d.due = nil
	d.mu.Unlock()
	sent := clock.Now()
	for i := range due {
		d.shared.PeekAsync(&due[i], func(answered *limiter.Check) {
			if answered.Policy.Ban != nil {
				d.local.Remember(answered) // first, so that no outage brings back a ban that was lifted
			}
			d.denied.relearn(answered, sent)
		})
	}
}
