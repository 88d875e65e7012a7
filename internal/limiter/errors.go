package limiter

import (
	"errors"
	"strings"
)

// ErrUndecided is wrapped by every error of a store that could not decide.
var ErrUndecided = errors.New("rate limit store could not decide")

// ErrInvalidCheck is wrapped by the errors of checks that no store can decide.
var ErrInvalidCheck = errors.New("invalid check")

// UndecidedError is the reason why a store could not decide. It wraps [ErrUndecided] and the cause,
// which names no client key and no secret.
type UndecidedError struct {
	// Kind is one word for metrics: timeout, refused, connection, readonly, loading, masterdown,
	// clusterdown, oom, misconf, noreplicas, tryagain, busy, auth, command, incompatible, value,
	// clock, overload, other, or breaker for a request that was not sent.
	Kind string

	// Err is the cause.
	Err error
}

// Error implements error.
func (e *UndecidedError) Error() string { return ErrUndecided.Error() + ": " + e.Err.Error() }

// Unwrap makes the error an [ErrUndecided] and its cause.
func (e *UndecidedError) Unwrap() []error { return []error{ErrUndecided, e.Err} }

// ErrOutage is the error of requests that are not sent because Redis, or a Cluster's master, fails.
var ErrOutage = &UndecidedError{Kind: "breaker", Err: errors.New("redis is failing; it is probed every second")}

// ErrAlreadyTimedOut is the error of checks that are not sent because the same request has waited
// for Redis in vain before.
var ErrAlreadyTimedOut = &UndecidedError{Kind: "breaker", Err: errors.New("the request has waited for Redis before")}

// Kind returns the kind of an [UndecidedError], "other" for any other error.
func Kind(err error) string {
	var u *UndecidedError
	if errors.As(err, &u) {
		return u.Kind
	}
	return "other"
}

// FailedAlone reports whether an error concerns one request, or one slot of a Cluster, while Redis
// decides the others: a key's stored value is foreign, its clock jumps between calendar periods, a slot has
// no master, or its keys are moving to another one. Every error that is not surely of these is a failure of Redis.
func FailedAlone(err error) bool {
	switch Kind(err) {
	case "value", "clock", "tryagain":
		return true
	}
	return err != nil && strings.Contains(err.Error(), "Hash slot not served")
}

// FieldError says which field of [Settings] or dial.Options is wrong, and what would be right. It
// quotes no secret.
type FieldError struct {
	// Field is the field's name, such as Burst. Several are joined by ", ".
	Field string

	// Value is what the field holds, as text; empty if that would not help. Of several Addresses it
	// is the number of the wrong one, from 1.
	Value string

	// Problem says what is wrong, and what to use instead.
	Problem string
}

// Error returns the problem behind the field's name.
func (e *FieldError) Error() string { return e.Of(e.Field) }

// Of returns the problem behind another name, for programs that call the field so.
func (e *FieldError) Of(name string) string {
	if e.Value != "" {
		name += " " + e.Value
	}
	return name + ": " + e.Problem
}

// KindIncompatible is the kind of the errors of a server that cannot run the scripts.
const KindIncompatible = "incompatible"

// KindClock is the kind of the errors of calendar periods that are not around Redis's time.
const KindClock = "clock"

// The errors of requests that Redis does not answer in time, or is not sent.
var (
	ErrTimeout  = &UndecidedError{Kind: "timeout", Err: errors.New("no answer within the timeout")}
	ErrUnsent   = &UndecidedError{Kind: "timeout", Err: errors.New("not sent within the timeout")}
	ErrOverload = &UndecidedError{Kind: "overload", Err: errors.New("too many requests wait for Redis")}
	ErrClosed   = &UndecidedError{Kind: "connection", Err: errors.New("the store is closed")}
)
