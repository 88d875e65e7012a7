// Package limiter limits what clients of a Go program may do, as the Caddy module does: a request is decided by policies,
// whose counts a [Store] keeps. The stores are memory.Store, in this process; redis.Store, in a Redis that any number of
// programs and Caddy nodes share; and failover.Store, which decides in this process while Redis does not. All of them
// give the same answers to the last microsecond.
package limiter

import (
	"context"
	"fmt"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// Store decides requests.
type Store interface {
	// Decide decides the checks together: all of them are charged if all pass, otherwise none. It fills in their
	// results. An error means that there is no decision: it wraps [ErrUndecided] if the store could not decide, so that
	// the request was charged at most once; [ErrInvalidCheck] if the checks are wrong; or it is the context's. Decide
	// does not keep the slice.
	Decide(ctx context.Context, checks []Check) (Source, error)
}

// Source names what decided: "redis", "memory" for this process alone, "fallback" for this process in an outage,
// "deny_cache" for a denial that was repeated without a query, or "lease" for units that were taken ahead.
type Source string

// The errors of stores.
var (
	// ErrUndecided is wrapped by every error of a store that could not decide.
	ErrUndecided = limiter.ErrUndecided

	// ErrInvalidCheck is wrapped by the errors of checks that no store can decide.
	ErrInvalidCheck = limiter.ErrInvalidCheck
)

// Kind returns the reason of an [ErrUndecided] in one word for metrics: timeout, refused, connection, readonly, loading,
// masterdown, clusterdown, oom, misconf, noreplicas, tryagain, busy, auth, command, incompatible, value, clock,
// overload, other, or breaker for a request that was not sent. Any other error is "other" too.
func Kind(err error) string { return limiter.Kind(err) }

// FieldError says which field of [Settings] or dial.Options is wrong: its Field is the field's name, several are joined
// by ", "; its Value what the field holds, as text, where that helps; its Problem what is wrong, and what to use instead.
// It quotes no secret.
type FieldError = limiter.FieldError

// Never is the RetryAfter of a request that cannot pass however long it waits, because its weight is above the capacity.
const Never = limiter.Never

// Check is one policy's part in a request: the client's quota and how many units of it to take.
type Check struct {
	// Policy is the rule to decide by.
	Policy *Policy

	// Key names the client's quota within the policy.
	Key EncodedKey

	// Weight is the units that the request takes; 0 is 1, a negative one an error. One above the policy's capacity never
	// passes.
	Weight int64

	// Reserve is the units that must stay for others: the check passes only if they remain after it. It takes the
	// weight alone. Default: 0. A negative one is an error; with more than [Policy.MostReserve] the check never passes.
	Reserve int64

	// Peek makes the check take no unit, whatever its weight, and pass. Its Result is the quota as it stands.
	Peek bool

	// Refundable requests a take that failover.Store.Settle can refund, all or a part. The policy must allow refunds,
	// see [Settings].Refunds. Default: what it takes stays.
	Refundable bool

	// Result is filled in by the store. It is undefined after an error.
	Result Result

	decided limiter.Check // as a store has left it; holds what ending and settling need
}

// internal returns the check as this module's stores take it.
func (c *Check) internal() limiter.Check {
	check := c.decided
	check.Policy, check.Key = nil, limiter.EncodedKey(c.Key)
	check.Weight, check.Reserve, check.Peek, check.Refundable = c.Weight, c.Reserve, c.Peek, c.Refundable
	check.Result = limiter.Result(c.Result)
	if c.Policy != nil {
		check.Policy = c.Policy.policy
	}
	return check
}

// Result is a store's answer to one check. A denial is a result, not an error.
type Result struct {
	// Remaining is the units left after this decision, from 0 to the policy's capacity, without those of the check's
	// Reserve. It is -1 if the request was denied because of another check without asking Redis.
	Remaining int64

	// RetryAfter is how long until the same request would pass if no other request came; 0 when this check passes,
	// [Never] when it never will. See also failover.Options.AwaitsRefunds.
	RetryAfter time.Duration

	// ResetAfter is how long until the whole quota is certainly free again if no other request comes; 0 when it is.
	ResetAfter time.Duration

	// Delay is how long an admitted request has to be held for a queue; 0 otherwise.
	Delay time.Duration

	// ForOthers reports that the check is denied only for its [Check].Reserve.
	ForOthers bool

	// Banned reports that the client is banned ([Settings].Ban): BanLeft is for how long, and BanBegins whether this
	// request began it. Remaining is 0 then.
	Banned, BanBegins bool
	BanLeft           time.Duration
}

// Passes reports whether the check let the request through. The request as a whole is allowed when all its checks pass.
func (r Result) Passes() bool { return r.RetryAfter == 0 }

// Allowed reports whether all checks passed. Only then were they charged.
func Allowed(checks []Check) bool {
	for i := range checks {
		if !checks[i].Result.Passes() {
			return false
		}
	}
	return true
}

// Binding returns the index of the check whose policy binds. Among denials that is one that can never pass, then the
// longest RetryAfter; otherwise the smallest fraction of its capacity left. Ties go to the first. It is -1 if there are
// no checks.
func Binding(checks []Check) int {
	binding := -1
	WithInternal(checks, func(internal []limiter.Check) { binding = limiter.Binding(internal) })
	return binding
}

// Allow decides a request that takes one unit of one policy. The key names the client's quota; any bytes. The request
// may pass if the result does. For an error see [Store]. A policy with a MaxConcurrent is one, which wraps
// [ErrInvalidCheck]: its requests are ended by EndRunning of the stores, which needs the checks of [Store.Decide].
func Allow(ctx context.Context, store Store, policy *Policy, key string) (Result, error) {
	if policy != nil && policy.policy.CountsRunning {
		return Result{}, fmt.Errorf("%w: Allow cannot end a request of %s: use Decide and EndRunning", ErrInvalidCheck, policy.Name())
	}
	checks := [1]Check{{Policy: policy, Key: EncodeKey(key)}}
	_, err := store.Decide(ctx, checks[:])
	return checks[0].Result, err
}

// Peek returns a client's quota of a policy as it stands, and takes nothing. For an error see [Store].
func Peek(ctx context.Context, store Store, policy *Policy, key string) (Result, error) {
	checks := [1]Check{{Policy: policy, Key: EncodeKey(key), Peek: true}}
	_, err := store.Decide(ctx, checks[:])
	return checks[0].Result, err
}

// EncodedKey names a client's quota within a policy. [EncodeKey] makes one of any text. The zero value is the key of the
// empty text, which is a quota too. Stores keep the text: a key that is a small part of a large string keeps all of it
// in memory.
type EncodedKey limiter.EncodedKey

// String returns the text that names the quota, in which braces and, by EncodeKey, '%' are percent-encoded.
func (k EncodedKey) String() string { return limiter.EncodedKey(k).String() }

// EncodeKey returns the key of a text of any bytes. Two texts have different keys. '%' and braces are percent-encoded,
// and a result of more than 128 bytes is replaced by its SHA-256. A Caddy whose key is one placeholder encodes its value
// the same way.
func EncodeKey(text string) EncodedKey { return EncodedKey(limiter.EncodeKey(text)) }

// AsEncoded returns the key of a text that its caller has encoded already, or that String returned. Braces are
// percent-encoded all the same, and a result of more than 128 bytes is replaced by its SHA-256. A '%' that no two
// hexadecimal digits follow begins a mark of the caller, such as a separator, other than %~ and %!.
func AsEncoded(text string) EncodedKey { return EncodedKey(limiter.AsEncoded(text)) }

// KeyFormat is the form of keys in Redis: <prefix>:{<client key>}:<policy>:<code>. The braces keep all policies of one
// client key in one slot of a Cluster.
type KeyFormat struct {
	// Prefix begins every key. It must not contain braces. Empty: keys begin with the brace.
	Prefix string

	// Secret, if not empty, hides client keys: they appear as their HMAC-SHA256 only.
	Secret string
}

// Banned is a client that a policy refuses now.
type Banned struct {
	// Policy is the policy's name.
	Policy string

	// Key is the client's key; with [KeyFormat].Secret its HMAC.
	Key EncodedKey

	// Left is how long it is still banned.
	Left time.Duration

	// Offenses is how many bans the client has had so far, with this one.
	Offenses int64
}

// WithInternal calls a function of a store of this module with checks in that store's form, and takes over what the function
// writes into them.
func WithInternal(checks []Check, call func(internal []limiter.Check)) {
	internal := make([]limiter.Check, len(checks))
	for i := range checks {
		internal[i] = checks[i].internal()
	}
	call(internal)
	for i := range checks {
		checks[i].decided, checks[i].Result = internal[i], Result(internal[i].Result)
	}
}
