package limiter

import (
	"context"
	"errors"
	"net"
	"strings"
	"syscall"

	"github.com/redis/go-redis/v9"
)

// UndecidedError says why a store could not decide. It wraps [ErrUndecided] and the cause, which
// names no client key and no secret.
type UndecidedError struct {
	// Kind is one word for metrics: timeout, refused, connection, readonly, loading, masterdown,
	// clusterdown, oom, misconf, noreplicas, tryagain, auth, overload, other, or breaker for what was
	// not sent.
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

// ErrWaited is the error of checks that are not sent because the same request has waited for Redis in
// vain before.
var ErrWaited = &UndecidedError{Kind: "breaker", Err: errors.New("the request has waited for Redis before")}

var (
	errTimeout  = &UndecidedError{Kind: "timeout", Err: errors.New("no answer within the timeout")}
	errOverload = &UndecidedError{Kind: "overload", Err: errors.New("too many requests wait for Redis")}
	errClosed   = &UndecidedError{Kind: "connection", Err: errors.New("the store is closed")}
)

// failure is what Redis said of one request of a batch.
type failure string

// Error implements error.
func (f failure) Error() string { return string(f) }

// redisError makes an error of what the script caught.
func redisError(text any) error {
	if s, ok := text.(string); ok {
		return failure(s)
	}
	return errReply
}

// Kind is the kind of an [UndecidedError], "other" for any other error.
func Kind(err error) string {
	var u *UndecidedError
	if errors.As(err, &u) {
		return u.Kind
	}
	return "other"
}

// failedAlone tells whether an error is that of one request, or of one slot of a Cluster, while Redis
// decides for the others: what the script caught, unless it says more, and a slot that no master has.
func failedAlone(err error) bool {
	var caught failure
	return errors.As(err, &caught) && Kind(err) == "other" || strings.Contains(err.Error(), "Hash slot not served")
}

// replyKinds are the words by which Redis says that it did not decide.
var replyKinds = []struct{ word, kind string }{
	{"READONLY", "readonly"}, {"LOADING", "loading"}, {"MASTERDOWN", "masterdown"},
	{"CLUSTERDOWN", "clusterdown"}, {"OOM", "oom"}, {"MISCONF", "misconf"},
	{"NOREPLICAS", "noreplicas"}, {"TRYAGAIN", "tryagain"}, {"NOAUTH", "auth"},
	{"WRONGPASS", "auth"}, {"NOPERM", "auth"}, {"unauthenticated", "auth"},
}

// undecided wraps a cause with its kind.
func undecided(err error) error {
	var known *UndecidedError
	if err == nil || errors.As(err, &known) {
		return err
	}
	return &UndecidedError{Kind: kindOf(err), Err: err}
}

func kindOf(err error) string {
	var network net.Error
	switch {
	case errors.As(err, &network) && network.Timeout(), errors.Is(err, context.DeadlineExceeded), errors.Is(err, redis.ErrPoolTimeout):
		return "timeout"
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ENOENT):
		return "refused"
	}
	var reply redis.Error
	var caught failure
	if errors.As(err, &reply) || errors.As(err, &caught) {
		for _, k := range replyKinds {
			if strings.Contains(err.Error(), k.word) {
				return k.kind
			}
		}
		return "other"
	}
	return "connection"
}
