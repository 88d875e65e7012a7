// Package storepool keeps what outlives a configuration: it opens the stores of configurations and keeps them open over
// reloads, good and failed, with what the process counts for each name of a policy. Counts go on,
// and the old and the new configuration use one client while both exist.
package storepool

import (
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/adminapi"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/challenge"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/failover"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/overrides"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/waiting"
)

// Pool holds the stores of a process by what makes them the same.
type Pool struct {
	*caddy.UsagePool

	// Newest returns the stores of the configuration that runs now; nil if no configuration with stores runs.
	Newest func() *Stores

	// Metrics count.
	Metrics Metrics

	// Gauges returns what runs and waits for policies: [Pool.GaugesNow]. Nil: nothing does.
	Gauges func(*nameTable) Gauges

	// Warnings are the last ones that the module has logged.
	Warnings adminapi.WarningLog

	// Held counts the requests that the process holds, among them those that wait for units of running requests.
	Held *waiting.Room

	process string // names the process to others
	exit    exit
}

// Metrics count what the stores of a pool do.
type Metrics struct {
	Batch       func(size int, took time.Duration) // sent to Redis, decided or failed
	StoreError  func(kind string)                  // of a request that Redis did not decide
	RefundError func(kind string)                  // of a refund or charge that it did not do
	DataLost    func()                             // by a Redis that answered throughout
	Outage      func(kind string)                  // when Redis begins not to decide
	Recovery    func(after time.Duration)          // when Redis decides again
}

// NewPool returns a pool without stores.
func NewPool(newest func() *Stores, m Metrics, held *waiting.Room) *Pool {
	return &Pool{UsagePool: caddy.NewUsagePool(), Newest: newest, Metrics: m, Held: held, process: rand.Text()}
}

// waiting returns the environment of a queue.
func (p *Pool) waiting() waiting.Environment {
	return waiting.Environment{Room: p.Held, Exiting: p.exit.hasCome}
}

// sharedStores are what all configurations with one Redis, or without Redis, have in common.
type sharedStores struct {
	*failover.Store

	// Queue has requests wait for units of running requests.
	Queue *failover.Queue

	// Overrides are what operators have set for keys of the store.
	Overrides *overrides.Live

	// Challenges is the secret that the nodes of the store share.
	Challenges *challenge.Keeper
}

// Stores are stores of the pool, as one configuration uses them. They stay open until their last use ends: that of the
// app that opened them, which ends with its Cleanup; of each request while it is decided, and until its response and its
// end have returned units; of each request to the admin API. The last use to end returns the stores to the pool.
type Stores struct {
	sharedStores

	Memory  *memoryStore
	Redis   *Redis   // nil: the counts live in this process
	Options *Options // of Redis; nil: there is none

	// Uses counts what uses the stores. Who has added 1 may use them until it takes 1 away, if the sum is above 0;
	// otherwise [Stores.Reopen] has them. Who comes to 0 by taking 1 away calls [Stores.CloseUnused]. Requests count
	// themselves, all else by [Stores.Use] and [Stores.End].
	Uses atomic.Int64

	pool *Pool
}

// HashSecret returns the secret by which keys are hashed in Redis; empty: they are not.
func (s *Stores) HashSecret() string {
	if s.Options == nil {
		return ""
	}
	return s.Options.Naming.Secret
}

// noUses is the number of uses after the last one. A late use does not raise it above 0.
const noUses = math.MinInt64 / 2

// Open opens the stores of options, of this process alone where these are nil. It does not connect.
func (p *Pool) Open(o *Options) (*Stores, error) {
	memory, err := p.acquireMemory()
	if err != nil {
		return nil, err
	}
	s := &Stores{sharedStores: memory.shared, Memory: memory, Options: o, pool: p}
	s.Uses.Store(1)
	if o == nil {
		return s, nil
	}
	if s.Redis, err = p.acquireRedis(*o, memory); err != nil {
		return nil, errors.Join(fmt.Errorf("redis: %w", err), s.release())
	}
	s.sharedStores = s.Redis.shared
	return s, nil
}

// EndConfiguration ends the use of an app that is cleaned up. If the process ends, requests that still run are cut off:
// the servers' grace period is over.
func (s *Stores) EndConfiguration() error {
	if caddy.Exiting() {
		s.pool.leaveClusters()
	}
	if s.EndUse() {
		return s.release()
	}
	return nil
}

// leaveClusters gives the places of running requests back, on every Redis.
func (p *Pool) leaveClusters() {
	var stores []*Redis
	p.Range(func(_, value any) bool {
		if store, ok := value.(*Redis); ok {
			stores = append(stores, store)
		}
		return true
	})
	for _, s := range stores {
		s.Store.ReleaseAllRunning()
	}
}

// Use returns the stores, which stay open until [Stores.End].
func (s *Stores) Use() *Stores {
	if s.Retain() {
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

// Retain counts one more use, and reports whether the stores are open: not if the last use has ended.
func (s *Stores) Retain() bool { return s.Uses.Add(1) > 0 }

// End ends a use. A request does not wait for what the last one closes.
func (s *Stores) End() {
	if s.Uses.Add(-1) == 0 {
		s.CloseUnused()
	}
}

// CloseUnused returns the stores to the pool, after the last use has ended, unless a new one has begun meanwhile.
func (s *Stores) CloseUnused() {
	if s.Uses.CompareAndSwap(0, noUses) {
		go func() { _ = s.release() }() // no caller is left for the outcome
	}
}

// EndUse ends a use, and reports whether it was the last one. The caller calls [Stores.release] then.
func (s *Stores) EndUse() (last bool) {
	return s.Uses.Add(-1) == 0 && s.Uses.CompareAndSwap(0, noUses)
}

// release returns the stores to the pool, which closes those that no other configuration has.
func (s *Stores) release() error {
	var remote error
	if s.Redis != nil {
		_, remote = s.pool.Delete(s.Redis.key)
	}
	_, memory := s.pool.Delete(memoryKey)
	return errors.Join(remote, memory)
}
