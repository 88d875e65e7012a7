package rule

import (
	"errors"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// refusal marks the errors by which this module refuses requests. Handlers further out judge one as the
// response that it becomes, because a refusal may also be written. Which of both it is depends on error
// routes, and they may be there for other statuses.
type refusal struct{ error }

// Unwrap returns the reason.
func (r refusal) Unwrap() error { return r.error }

// Refuse returns the error of a request that this module refuses with a status.
func Refuse(status int, reason error) caddyhttp.HandlerError {
	return caddyhttp.HandlerError{StatusCode: status, Err: refusal{reason}}
}

// IsRefusal reports whether an error is one of [Refuse].
func IsRefusal(err error) bool { return errors.As(err, new(refusal)) }
