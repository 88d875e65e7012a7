package limiter

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/kernel"
)

// Reset drops the state of a key in a policy, here and in the shared store. Other nodes may go on
// denying for the age of their deny caches. After an error it was dropped in this process alone.
func (f *Failover) Reset(ctx context.Context, p *Policy, key EncodedKey) (found ResetCount, err error) {
	found.Here = f.local.Reset(p, key)
	if f.shared == nil {
		return found, nil
	}
	defer f.local.Reset(p, key) // what was remembered meanwhile
	f.ledger.forget(p, key.String())
	f.leases.end(key.String(), ofState(p.Rule().ID), keyReset)
	defer f.leases.end(key.String(), ofState(p.Rule().ID), keyReset) // what was leased meanwhile
	defer f.denied.forget(p.Rule().ID, key.String())
	found.Shared, err = f.shared.Reset(ctx, p, key)
	return found, err
}

// ResetAll drops all states of the policy of that name, whatever its settings are or were. After an
// error the shared store may still have some.
func (f *Failover) ResetAll(ctx context.Context, policy string) (found ResetCount, err error) {
	if !validName(policy) {
		return found, nil // no policy is called so
	}
	found.Here = f.local.ResetAll(policy)
	if f.shared == nil {
		return found, nil
	}
	defer f.local.ResetAll(policy) // what was remembered meanwhile
	f.ledger.forgetAll(policy)
	f.leases.endAll(named(policy), keyReset)
	defer f.leases.endAll(named(policy), keyReset) // what was leased meanwhile
	defer f.denied.forgetAll(policy)
	found.Shared, err = f.shared.ResetAll(ctx, policy)
	return found, err
}

// Unban lifts the ban of a key in a policy and forgets its offenses, here and in the shared store, and
// reports whether it was banned. Where [KeyFormat].Secret hides keys, the key may also be one of
// [Failover.Banned], which is an HMAC. Its count stays, so that a client over its limit is denied as any
// other. Other nodes may go on denying for the age of their deny caches. After an error nothing has
// changed, unless the shared store answered too late.
func (f *Failover) Unban(ctx context.Context, p *Policy, key EncodedKey) (bool, error) {
	if f.shared == nil {
		return f.local.Unban(p, key), nil
	}
	banned, err := f.shared.Unban(ctx, p, key)
	if err != nil {
		return false, err
	}
	f.local.Unban(p, key)
	f.denied.forget(p.Rule().ID, key.String())
	if f.shared.mayBeHMAC(key) {
		f.local.unbanWhere(p.Name(), func(other string) bool {
			return string(f.shared.AppendClient(nil, AsEncoded(other))) == key.String()
		})
		f.denied.forgetAll(p.Name())
	}
	return banned, nil
}

// UnbanAll lifts the bans of all keys in the policy of that name, whatever its settings are or were, and
// returns how many were banned. After an error those in a part of the shared store are lifted, and those
// that this process remembers are not.
func (f *Failover) UnbanAll(ctx context.Context, policy string) (int64, error) {
	if !validName(policy) {
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

// Banned lists the clients that the shared store, or without one this process, refuses now: those of
// the policy of that name, of all policies where it is empty. The longest bans come first. The list is
// not complete where there are more than [MaxBanned], or the search took too long. With an error it
// has what was found until then.
func (f *Failover) Banned(ctx context.Context, policy string) (list []Banned, complete bool, err error) {
	if policy != "" && !validName(policy) {
		return nil, true, nil // no policy is called so, and Redis must not match a pattern
	}
	policy = cmp.Or(policy, anyPolicy)
	if f.shared == nil {
		list = f.local.banned(policy)
	} else {
		list, err = f.shared.banned(ctx, policy)
	}
	complete = err == nil && len(list) <= MaxBanned
	slices.SortFunc(list, func(a, b Banned) int {
		return cmp.Or(cmp.Compare(b.Left, a.Left), cmp.Compare(a.Policy, b.Policy), cmp.Compare(a.Key.String(), b.Key.String()))
	})
	return list[:min(len(list), MaxBanned)], complete, err
}

// HasLocalState reports whether this process has a state of a key by itself: from its own decisions,
// or from the shared store's last answer. For a key without one [Failover.PeekLocal] finds nothing
// used.
func (f *Failover) HasLocalState(p *Policy, key EncodedKey) bool {
	s := f.local.lock(p, key.String())
	defer s.mu.Unlock()
	_, banned := s.bans[key.String()]
	return banned || s.get(p, key.String(), f.local.clock()) != (kernel.State{})
}

// ForgetDenials ends the remembered denials and the leases of the policies of a name: those of some keys, or
// all of them where there is no key.
func (f *Failover) ForgetDenials(policy string, keys ...EncodedKey) {
	if len(keys) == 0 {
		f.denied.forgetAll(policy)
		f.leases.endAll(named(policy), keyEnded)
		return
	}
	for _, key := range keys {
		f.leases.end(key.String(), named(policy), keyEnded)
		f.denied.forgetWhere(key.String(), func(p *Policy) bool { return p.Name() == policy })
	}
}

// Prune drops the denials that have expired, which keep their policies in memory.
func (f *Failover) Prune() {
	if f.denied != nil {
		f.denied.prune(time.Now())
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
