// Package storepool opens the stores of configurations and keeps them open over reloads, good and failed: every
// count goes on, and the old and the new configuration share a client while both are there.
package storepool

import (
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/challenge"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/failover"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/overrides"
)

// Pool holds the stores of a process by what makes them the same.
type Pool struct {
	*caddy.UsagePool

	// Newest returns the stores of the configuration that runs now; nil where none has some.
	Newest func() *Stores

	// Metrics count.
	Metrics Metrics
}

// Metrics count what the stores of a pool do.
type Metrics struct {
	Batch       func(size int, took time.Duration) // sent to Redis, decided or failed
	StoreError  func(kind string)                  // of a request that Redis did not decide
	RefundError func(kind string)                  // of a refund or charge that it did not do
	DataLost    func()                             // by a Redis that answered throughout
}

// NewPool returns a pool without stores.
func NewPool(newest func() *Stores, m Metrics) *Pool {
	return &Pool{UsagePool: caddy.NewUsagePool(), Newest: newest, Metrics: m}
}

// Deciders decide by a store.
type Deciders struct {
	*failover.Store

	// Overrides are what operators have set for keys of the store.
	Overrides *overrides.Live

	// Challenges is the secret that the nodes of the store share.
	Challenges *challenge.Keeper
}

// Stores are stores of the pool. They stay open for as long as something uses them: the app that opened
// them until its Cleanup, each request while it decides and while it has units that its response or its end
// returns, and each question of the admin API. The last one to end returns them to the pool.
type Stores struct {
	Deciders

	Memory  *Memory
	Redis   *Redis   // nil: the counts live in this process
	Options *Options // of Redis; nil: there is none

	// Uses counts what uses the stores. Who has added 1 may use them until it takes 1 away, if the sum is above 0;
	// otherwise [Stores.Reopen] has them. Who comes to 0 by taking 1 away calls [Stores.CloseUnused]. Requests count
	// themselves, all else by [Stores.Use] and [Stores.End].
	Uses atomic.Int64

	pool *Pool
}

// noUses is the number of uses after the last one. A late use does not raise it above 0.
const noUses = math.MinInt64 / 2

// Open opens the stores of options, of this process alone where these are nil. It does not connect.
func (p *Pool) Open(o *Options) (*Stores, error) {
	memory, err := p.acquireMemory()
	if err != nil {
		return nil, err
	}
	s := &Stores{Deciders: memory.deciders, Memory: memory, Options: o, pool: p}
	s.Uses.Store(1)
	if o == nil {
		return s, nil
	}
	if s.Redis, err = p.acquireRedis(*o, memory); err != nil {
		return nil, errors.Join(fmt.Errorf("redis: %w", err), s.Release())
	}
	s.Deciders = s.Redis.deciders
	return s, nil
}

// Leave ends the use of an app that is cleaned up. If the process ends, requests that run are cut: the servers' grace
// period is over.
func (s *Stores) Leave() error {
	if caddy.Exiting() {
		s.pool.leave()
	}
	if s.Last() {
		return s.Release()
	}
	return nil
}

// leave gives back what requests that run hold on every Redis.
func (p *Pool) leave() {
	var stores []*Redis
	p.Range(func(_, value any) bool {
		if store, ok := value.(*Redis); ok {
			stores = append(stores, store)
		}
		return true
	})
	for _, s := range stores {
		s.Store.Leave()
	}
}

// Use returns the stores, which stay open until [Stores.End].
func (s *Stores) Use() *Stores {
	if s.Share() {
		return s
	}
	return s.Reopen()
}

// Reopen returns the stores of a configuration that has ended, opened again. Its requests may go on after its Cleanup,
// as those behind a slow handler do. The options are those of the configuration that runs now, if they lead to the same
// counts.
func (s *Stores) Reopen() *Stores {
	options := s.Options
	if newest := s.pool.newestAt(options); newest != nil {
		options = newest.Options
	}
	again, err := s.pool.Open(options)
	if err != nil { // for options that were good before there is none
		return s
	}
	return again
}

// Share counts one more use, unless the last one has ended.
func (s *Stores) Share() bool { return s.Uses.Add(1) > 0 }

// End ends a use. A request does not wait for what the last one closes.
func (s *Stores) End() {
	if s.Uses.Add(-1) == 0 {
		s.CloseUnused()
	}
}

// CloseUnused returns the stores to the pool, after the last use has ended, unless a new one has begun meanwhile.
func (s *Stores) CloseUnused() {
	if s.Uses.CompareAndSwap(0, noUses) {
		go func() { _ = s.Release() }() // no caller is left for the outcome
	}
}

// Last ends a use, and reports whether it was the last one. [Stores.Release] follows it then.
func (s *Stores) Last() bool {
	return s.Uses.Add(-1) == 0 && s.Uses.CompareAndSwap(0, noUses)
}

// Release returns the stores to the pool, which closes those that nothing else has.
func (s *Stores) Release() error {
	var remote error
	if s.Redis != nil {
		_, remote = s.pool.Delete(s.Redis.key)
	}
	_, memory := s.pool.Delete(memoryKey)
	return errors.Join(remote, memory)
}
