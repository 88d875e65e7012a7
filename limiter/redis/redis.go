// Package redis is the store in a Redis that any number of programs and Caddy nodes share.
package redis

import (
	"context"
	"time"

	goredis "github.com/redis/go-redis/v9"

	core "github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redis"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

// Options says how a [Store] is to behave.
type Options struct {
	// KeyFormat is the form of the keys.
	KeyFormat limiter.KeyFormat

	// OnOutage is called when Redis, or the first master of a Cluster, begins to fail, with the
	// first error. It must not block. May be nil.
	OnOutage func(err error)

	// OnRecovery is called when all of Redis decides again, with how long it did not. May be nil.
	OnRecovery func(after time.Duration)

	// OnRefusedLogin is called for every batch that waits for another connection because Redis or
	// the sentinels refuse a new one, or its files cannot be read, while older connections work. The
	// error is one that wraps [limiter.ErrUndecided]. It must not block. May be nil.
	OnRefusedLogin func(err error)

	// OnLost is called for every refund, charge and repayment that Redis did not do, with the reason. It
	// must not block. May be nil.
	OnLost func(err error)

	// OnBatch is called after every batch, with how many requests it held and how long they took.
	// May be nil.
	OnBatch func(size int, took time.Duration)
}

// Store is the [limiter.Store] in a Redis. It is safe for concurrent use.
type Store struct{ store *redis.Store }

// New returns a store on a client, which it closes. It does not connect. Decisions wait for as long as the client waits
// for a reply; see dial.New. The connections of a client that dial.New made for a single Redis are renewed in the
// background, and replaced where its address leads to another server.
func New(client goredis.UniversalClient, options Options) *Store {
	return &Store{redis.New(client, redis.Setup{
		KeyFormat: core.KeyFormat(options.KeyFormat),
		OnOutage:  options.OnOutage, OnRecovery: options.OnRecovery, OnRefusedLogin: options.OnRefusedLogin,
		OnLost: options.OnLost, OnBatch: options.OnBatch,
	})}
}

// Internal returns the store as this module's other stores know it.
func (s *Store) Internal() *redis.Store { return s.store }

// Decide implements [limiter.Store]. It waits for at most the timeout. A request whose answer is lost was charged at most
// once: a command is sent again only if it has certainly not run.
func (s *Store) Decide(ctx context.Context, checks []limiter.Check) (limiter.Source, error) {
	var source core.Source
	var err error
	limiter.WithInternal(checks, func(internal []core.Check) { source, err = s.store.Decide(ctx, internal) })
	return limiter.Source(source), err
}

// EndRunning ends what [Store.Decide] has let run of policies with a MaxConcurrent, with the checks as it left them. It
// does nothing for other policies and for checks that were denied.
func (s *Store) EndRunning(checks []limiter.Check) { limiter.WithInternal(checks, s.store.EndRunning) }

// Close ends the store after decisions, refunds and running requests under way, but waits for these no longer than the
// timeout. It returns the error of closing the client.
func (s *Store) Close() error { return s.store.Close() }
