// Package memory is the store of a single process.
package memory

import (
	"context"

	core "github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/memory"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

// Store is the [limiter.Store] of a single process. It is safe for concurrent use. States that have decayed to empty are
// dropped as new ones arrive, and by and by if none arrive. When there are too many others, new keys have cells in
// common, so that they can get too little, never too much.
type Store struct{ store *memory.Store }

// New returns an empty store on this machine's clock, which keeps a million states.
func New() *Store { return &Store{memory.New()} }

// NewOnClock returns an empty store on another clock, such as that of a test: microseconds since the Unix epoch. The clock
// may run backwards; that refills no quota. The store drops no states unless new ones arrive.
func NewOnClock(clock func() int64) *Store { return &Store{memory.NewOnClock(clock)} }

// Internal returns the store as this module's other stores know it.
func (s *Store) Internal() *memory.Store { return s.store }

// Limit bounds the states that are kept, from 1; the default is a million. Existing ones stay. The function is called
// once, when the bound is reached for the first time from now on; it must not block. It may be nil.
func (s *Store) Limit(maxKeys int64, onOverflow func()) { s.store.Limit(maxKeys, onOverflow) }

// Decide implements [limiter.Store]. It does not wait, and fails for invalid checks alone.
func (s *Store) Decide(ctx context.Context, checks []limiter.Check) (limiter.Source, error) {
	var source core.Source
	var err error
	limiter.WithInternal(checks, func(internal []core.Check) { source, err = s.store.Decide(ctx, internal) })
	return limiter.Source(source), err
}

// EndRunning ends what [Store.Decide] has let run of policies with a MaxConcurrent, with the checks as it left them. It
// does nothing for other policies and for checks that were denied.
func (s *Store) EndRunning(checks []limiter.Check) { limiter.WithInternal(checks, s.store.EndRunning) }
