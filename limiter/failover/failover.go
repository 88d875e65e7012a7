// Package failover is a store in Redis with a store of this process behind it, which decides while Redis does not.
package failover

import (
	"context"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/failover"
	core "github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	shared "github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redis"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/memory"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/redis"
)

// Options say how a [Store] is to behave.
type Options struct {
	// DenyAge is how long a denial by the shared store may be repeated without a query; at most
	// a second, 0 turns that off.
	DenyAge time.Duration

	// LocalFraction is the fraction of each limit that this process enforces while the shared store
	// cannot decide, above 0 and below 1: 1/n for each of n nodes keeps the limit as a whole. 0 and
	// 1 are the whole limit.
	LocalFraction float64

	// ForgiveOutages leaves it at that what this process admitted while the shared store could not
	// decide. By default it is charged there when the shared store decides again, as far as that
	// leaves a quota within its capacity.
	ForgiveOutages bool

	// AwaitsRefunds says that the caller ends every check with Refundable that has passed by [Store.Settle]. A
	// denied check that misses no more units than this node may still refund has a RetryAfter of a second at
	// most. Default: RetryAfter reckons with no refund.
	AwaitsRefunds bool

	// OnUndecided is called for every request that the shared store could not decide. It must not
	// block. May be nil.
	OnUndecided func(err error)
}

// Store is the [limiter.Store] of a Redis with a store of this process behind it. It is safe for concurrent use.
type Store struct{ store *failover.Store }

// New puts a local store behind a shared one. Without a shared one (nil) the local store decides everything.
func New(inRedis *redis.Store, local *memory.Store, options Options) *Store {
	var behind *shared.Store
	if inRedis != nil {
		behind = inRedis.Internal()
	}
	return &Store{failover.New(behind, local.Internal(), failover.Behavior{
		DenyAge: options.DenyAge, LocalFraction: options.LocalFraction, ForgiveOutages: options.ForgiveOutages,
		AwaitsRefunds: options.AwaitsRefunds, OnUndecided: options.OnUndecided,
	})}
}

// Decide implements [limiter.Store]. Where the shared store cannot decide, the local one does, and the source is
// "fallback".
func (s *Store) Decide(ctx context.Context, checks []limiter.Check) (limiter.Source, error) {
	var source core.Source
	var err error
	limiter.WithInternal(checks, func(internal []core.Check) { source, err = s.store.Decide(ctx, internal) })
	return limiter.Source(source), err
}

// Settle makes what a check took its real cost: it charges the rest, into debt, or refunds what was too much. A refund
// needs [limiter.Check].Refundable. A cost of 0 refunds all. It is called at most once for a check that passed, with the
// source that Decide returned; it does not wait. If Redis does not do it, redis.Options.OnLost is called.
func (s *Store) Settle(check limiter.Check, cost int64, source limiter.Source) {
	limiter.WithInternal([]limiter.Check{check}, func(internal []core.Check) {
		s.store.Settle(internal[0], cost, core.Source(source))
	})
}

// EndRunning ends what [Store.Decide] has let run of policies with a MaxConcurrent, with the checks as it left them. It
// does nothing for other policies and for checks that were denied.
func (s *Store) EndRunning(checks []limiter.Check) { limiter.WithInternal(checks, s.store.EndRunning) }

// EndLeases gives units back that were taken ahead ([limiter.Settings].Lease), and takes no more. It is called before
// the Close of the shared store.
func (s *Store) EndLeases() { s.store.EndLeases() }

// Reset drops the state of a key in a policy, here and in the shared store. Other nodes may go on denying for the age of
// their deny caches. After an error it was dropped in this process alone.
func (s *Store) Reset(ctx context.Context, p *limiter.Policy, key limiter.EncodedKey) error {
	_, err := s.store.Reset(ctx, p.Internal(), core.EncodedKey(key))
	return err
}

// ResetAll drops all states of the policy of that name, whatever its settings are or were. After an error the shared
// store may still have some.
func (s *Store) ResetAll(ctx context.Context, policy string) error {
	_, err := s.store.ResetAll(ctx, policy)
	return err
}

// Unban lifts the ban of a key in a policy and forgets its offenses, here and in the shared store, and reports whether it
// was banned. Where [limiter.KeyFormat].Secret hides keys, the key may also be one of [Store.Banned], which is an HMAC.
// Its count stays, so that a client over its limit is denied as any other. Other nodes may go on denying for the age of
// their deny caches. After an error nothing has changed, unless the shared store answered too late.
func (s *Store) Unban(ctx context.Context, p *limiter.Policy, key limiter.EncodedKey) (bool, error) {
	return s.store.Unban(ctx, p.Internal(), core.EncodedKey(key))
}

// UnbanAll lifts the bans of all keys in the policy of that name, whatever its settings are or were, and returns how many
// were banned. After an error those in a part of the shared store are lifted, and those that this process remembers are
// not.
func (s *Store) UnbanAll(ctx context.Context, policy string) (int64, error) {
	return s.store.UnbanAll(ctx, policy)
}

// Banned lists the clients that the shared store, or without one this process, refuses now: those of the policy of that
// name, of all policies where it is empty; at most 10,000. The longest bans come first. It scans Redis for at most 30
// seconds, and reports whether the list is complete.
func (s *Store) Banned(ctx context.Context, policy string) (list []limiter.Banned, complete bool, err error) {
	banned, complete, err := s.store.Banned(ctx, policy)
	for _, b := range banned {
		list = append(list, limiter.Banned{Policy: b.Policy, Key: limiter.EncodedKey(b.Key), Left: b.Left, Offenses: b.Offenses})
	}
	return list, complete, err
}
