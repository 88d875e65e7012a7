package rule

import (
	"errors"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// refusedError marks the errors by which this module refuses requests. An outer handler settles its checks by such an error as
// by a response of the same status: whether a refusal is returned as an error or written as a response depends on the
// error routes of the site, which may be there for other statuses.
type refusedError struct{ error }

// Unwrap returns the reason of the refusal.
func (r refusedError) Unwrap() error { return r.error }

// Refuse returns the error of a request that this module refuses with a status.
func Refuse(status int, reason error) caddyhttp.HandlerError {
	return caddyhttp.HandlerError{StatusCode: status, Err: refusedError{reason}}
}

// errEarly is the error of a request that came before the client's address is verified.
var errEarly = errors.New("the client's address is not verified before the TLS handshake is complete")

// IsRefusal reports whether an error is one of [Refuse].
func IsRefusal(err error) bool { return errors.As(err, new(refusedError)) }
