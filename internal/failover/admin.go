package failover

import (
	"cmp"
	"context"
	"slices"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/lease"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/memory"
)

// Reset drops the state of a key in a policy, here and in the shared store. Other nodes may go on
// denying for the age of their deny caches. After an error it was dropped in this process alone.
func (f *Store) Reset(ctx context.Context, p *limiter.Policy, key limiter.EncodedKey) (found ResetCount, err error) {
	found.Here = f.ResetHere(p, key)
	if f.shared == nil {
		return found, nil
	}
	defer f.drop(p, key) // what was remembered and leased meanwhile
	found.Shared, err = f.shared.Reset(ctx, p, key)
	return found, err
}

// ResetHere drops the state of a key in a policy in this process alone, and returns 1 if there was one.
func (f *Store) ResetHere(p *limiter.Policy, key limiter.EncodedKey) int64 {
	if f.shared != nil {
		f.ledger.forget(p, key.String())
	}
	return f.drop(p, key)
}

// drop drops what this process remembers and has leased of a key in a policy, and reports whether there was a state.
func (f *Store) drop(p *limiter.Policy, key limiter.EncodedKey) (found int64) {
	if f.shared != nil {
		f.denied.forget(p.ID, key.String())
		f.leases.End(key.String(), lease.OfState(p.ID), lease.KeyReset)
	}
	return f.local.Reset(p, key)
}

// ResetAll drops all states of the policy of that name, whatever its settings are or were. After an
// error the shared store may still have some.
func (f *Store) ResetAll(ctx context.Context, policy string) (found ResetCount, err error) {
	if !limiter.ValidName(policy) {
		return found, nil // no policy is called so, and Redis must not match a pattern
	}
	found.Here = f.ResetAllHere(policy)
	if f.shared == nil {
		return found, nil
	}
	defer f.dropAll(policy) // what was remembered and leased meanwhile
	found.Shared, err = f.shared.ResetAll(ctx, policy)
	return found, err
}

// ResetAllHere drops all states of the policy of that name in this process alone, and returns how many there were.
func (f *Store) ResetAllHere(policy string) int64 {
	if f.shared != nil {
		f.ledger.forgetAll(policy)
	}
	return f.dropAll(policy)
}

// dropAll drops what this process remembers and has leased of the policy of that name, and returns how many states there
// were.
func (f *Store) dropAll(policy string) int64 {
	if f.shared != nil {
		f.denied.forgetAll(policy)
		f.leases.EndAll(lease.Named(policy), lease.KeyReset)
	}
	return f.local.ResetAll(policy)
}

// Unban lifts the ban of a key in a policy and forgets the key's offenses, here and in the shared store, and reports
// whether the key was banned. If [limiter.KeyFormat].Secret hides keys, the key may also be an HMAC from [Store.Banned].
// The key's count stays, so that a client over its limit is denied as any other. Other nodes may go on denying for the
// age of their deny caches. After an error nothing has changed, unless the shared store answered too late.
func (f *Store) Unban(ctx context.Context, p *limiter.Policy, key limiter.EncodedKey) (bool, error) {
	if f.shared == nil {
		return f.local.Unban(p, key), nil
	}
	banned, err := f.shared.Unban(ctx, p, key)
	if err != nil {
		return false, err
	}
	f.UnbanHere(p, key)
	return banned, nil
}

// UnbanHere lifts the ban of a key in this process alone, and reports whether the key was banned here. When the shared
// store decides again, its ban of the key holds again.
func (f *Store) UnbanHere(p *limiter.Policy, key limiter.EncodedKey) bool {
	banned := f.local.Unban(p, key)
	f.denied.forget(p.ID, key.String())
	if f.shared != nil && f.shared.MayBeHMAC(key) {
		lifted := f.local.UnbanWhere(p.Name(), func(other string) bool {
			return string(f.shared.AppendClient(nil, limiter.AsEncoded(other))) == key.String()
		})
		f.denied.forgetAll(p.Name())
		banned = banned || lifted > 0
	}
	return banned
}

// UnbanAll lifts the bans of all keys in the policy of that name, whatever its settings are or were, and
// returns how many were banned. After an error those in a part of the shared store are lifted, and those
// that this process remembers are not.
func (f *Store) UnbanAll(ctx context.Context, policy string) (int64, error) {
	if !limiter.ValidName(policy) {
		return 0, nil // no policy is called so, and Redis must not match a pattern
	}
	if f.shared == nil {
		return f.local.UnbanAll(policy), nil
	}
	banned, err := f.shared.UnbanAll(ctx, policy)
	if err == nil {
		f.local.UnbanAll(policy)
	}
	f.denied.forgetAll(policy)
	return banned, err
}

// UnbanAllHere lifts the bans of all keys in this process alone, as [Store.UnbanHere] lifts that of one.
func (f *Store) UnbanAllHere(policy string) int64 {
	if !limiter.ValidName(policy) {
		return 0 // no policy is called so
	}
	banned := f.local.UnbanAll(policy)
	f.denied.forgetAll(policy)
	return banned
}

// Banned lists the clients that the shared store, or without one this process, refuses now: those of the policy of that
// name, or of all policies if the name is empty. The longest bans come first. The list is not complete if there are more
// than [limiter.MaxBanned], or if the search took too long. With an error it has what was found until then.
func (f *Store) Banned(ctx context.Context, policy string) (list []limiter.Banned, complete bool, err error) {
	if policy != "" && !limiter.ValidName(policy) {
		return nil, true, nil // no policy is called so, and Redis must not match a pattern
	}
	policy = cmp.Or(policy, memory.AnyPolicy)
	if f.shared == nil {
		list = f.local.Banned(policy)
	} else {
		list, err = f.shared.Banned(ctx, policy)
	}
	complete = err == nil && len(list) <= limiter.MaxBanned
	slices.SortFunc(list, func(a, b limiter.Banned) int {
		return cmp.Or(cmp.Compare(b.Left, a.Left), cmp.Compare(a.Policy, b.Policy), cmp.Compare(a.Key.String(), b.Key.String()))
	})
	return list[:min(len(list), limiter.MaxBanned)], complete, err
}

// HasLocalState reports whether this process has a state of a key by itself: from its own decisions,
// or from the shared store's last answer. For a key without one [Store.PeekLocal] finds nothing
// used.
func (f *Store) HasLocalState(p *limiter.Policy, key limiter.EncodedKey) bool {
	s := f.local.Lock(p, key.String())
	defer s.Mu.Unlock()
	return s.Holds(p, key.String(), f.local.Clock())
}

// ForgetDenials drops the remembered denials and ends the leases of the policies of a name: those of the keys, or without
// keys all of them.
func (f *Store) ForgetDenials(policy string, keys ...limiter.EncodedKey) {
	if len(keys) == 0 {
		f.denied.forgetAll(policy)
		f.leases.EndAll(lease.Named(policy), lease.KeyEnded)
		return
	}
	for _, key := range keys {
		f.leases.End(key.String(), lease.Named(policy), lease.KeyEnded)
		f.denied.forgetWhere(key.String(), func(p *limiter.Policy) bool { return p.Name() == policy })
	}
}

// Prune drops the denials that have expired, which keep their policies in memory.
func (f *Store) Prune() {
	if f.denied != nil {
		f.denied.prune(clock.Now())
	}
}

// ResetCount counts the states that a reset has found.
type ResetCount struct {
	// Shared is those in the shared store; with an error, in the part of it that answered. Without a
	// shared store it is 0.
	Shared int64

	// Here is those in this process. With a shared store that is only what was kept for outages.
	Here int64
}
