package rule

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/bodyvalue"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// Body has the values of a request's body. The body is read when the first of them is needed.
type Body interface {
	// Denies reports whether one of the checks is known to be denied, without a question to a store, and gives the checks
	// their results. The body need not be read then.
	Denies(checks []limiter.Check) bool

	// Values returns the values, by the plan of the set. The error refuses the request: there is no room for the body, or
	// it is the one of Err.
	Values() (*bodyvalue.Values, error)

	// Unread returns, and forgets, why a placeholder of the body had no value that was asked for: the value cannot be read, or
	// the error of Values.
	Unread() (bodyvalue.UnreadableReason, error)

	// Err returns why nothing can go on with the body, whether or not a rule is a dry run: it did not arrive in time, or
	// reading it failed. Nil: it can, or the body has not been read.
	Err() error
}

// unreadError is the error of a value that applications may read in different ways, or not at all.
type unreadError struct{ reason bodyvalue.UnreadableReason }

// Error says why there is no value. It quotes nothing of the request.
func (e unreadError) Error() string {
	if !e.reason.IsOfBody() {
		return e.reason.Text()
	}
	return fmt.Sprintf("the request's body has no value that all applications read (%v): %s", e.reason, e.reason.Text())
}

// The reasons of values that no application reads in different ways.
const (
	reasonOther  = "value"
	reasonNoRoom = "no_room"
)

// ErrNoRoom is wrapped by the error of a request whose body is not read, because too many are held.
var ErrNoRoom = errors.New("there is no room to read the request's body")

// ReasonLabel returns why a value cannot be used, as a label of metrics, for the error that [Set.Warn] gets.
func ReasonLabel(err error) string {
	var unread unreadError
	switch {
	case errors.As(err, &unread):
		return unread.reason.String()
	case errors.Is(err, ErrNoRoom):
		return reasonNoRoom
	}
	return reasonOther
}

// UnreadText says in words why a value is unreadable, for the error that [Set.Warn] gets; empty for other errors.
func UnreadText(err error) string {
	var unread unreadError
	errors.As(err, &unread)
	return unread.reason.Text()
}

// RefusalLabel returns in a word why a rule refuses a request without a decision: the label of the value that cannot be
// used, see [ReasonLabel], empty_key, or early for 0-RTT data of TLS. It is empty for errors of another origin.
func RefusalLabel(err error) string {
	switch label := ReasonLabel(err); {
	case label != reasonOther:
		return label
	case errors.Is(err, errEarly):
		return "early"
	case errors.Is(err, ErrEmptyKey):
		return "empty_key"
	}
	return ""
}

// refuseUnusable returns the error of a request that is refused because a value that it has cannot be used.
func refuseUnusable(err, wrapped error) error {
	status := http.StatusBadRequest
	var unread unreadError
	if errors.As(err, &unread) {
		status = unread.reason.Status()
	}
	return Refuse(status, wrapped)
}
