package redisratelimit

import (
	"errors"
	"fmt"
	"math"
	"sync/atomic"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/failover"
)

// openStores are stores of the pool. They stay open for as long as something uses them: the app that opened
// them until its Cleanup, each request while it decides and while it has units that its response or its end
// returns, and each question of the admin API. The last one to end returns them to the pool.
type openStores struct {
	*failover.Store // decides
	memory          *sharedMemory
	remote          *sharedRedis // nil: the counts live in this process
	uses            atomic.Int64
}

// noUses is the number of uses after the last one. A late use does not raise it above 0.
const noUses = math.MinInt64 / 2

// openStoresFor opens the stores of options, of this process alone where these are nil. It does not connect.
func openStoresFor(o *redisOptions) (*openStores, error) {
	memory, err := acquireMemory()
	if err != nil {
		return nil, err
	}
	s := &openStores{Store: memory.failover, memory: memory}
	s.uses.Store(1)
	if o == nil {
		return s, nil
	}
	if s.remote, err = acquireRedis(*o, memory); err != nil {
		return nil, errors.Join(fmt.Errorf("redis: %w", err), s.release())
	}
	s.Store = s.remote.failover
	return s, nil
}

// use returns the stores, which stay open until their end. All that decides goes this way. Requests of a
// configuration may go on after its Cleanup, as those behind a slow handler do; for them the stores are
// opened again, by the options of the configuration that runs now where these lead to the same counts.
func (a *App) use() *openStores {
	if a.opened.share() {
		return a.opened
	}
	options := a.redis
	if app := apps.newest(); options != nil && app != nil && options.samePlace(app.redis) {
		options = app.redis
	}
	again, err := openStoresFor(options)
	if err != nil { // for options that were good before there is none
		return a.opened
	}
	return again
}

// share counts one more use, unless the last one has ended.
func (s *openStores) share() bool { return s.uses.Add(1) > 0 }

// end ends a use. A request does not wait for what the last one closes.
func (s *openStores) end() {
	if s.last() {
		go func() { _ = s.release() }() // no caller is left for the outcome
	}
}

// last ends a use, and reports whether it was the last one.
func (s *openStores) last() bool {
	return s.uses.Add(-1) == 0 && s.uses.CompareAndSwap(0, noUses)
}

// release returns the stores to the pool, which closes those that nothing else has.
func (s *openStores) release() error {
	var remote error
	if s.remote != nil {
		remote = s.remote.release()
	}
	_, memory := stores.Delete(memoryKey)
	return errors.Join(remote, memory)
}
