package rule

import (
	"errors"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// SourceOverride is the source of a decision that an override makes without a store.
const SourceOverride limiter.Source = "override"

// Outcome is what happened to a request: the value of {http.redis_ratelimit.decision}.
type Outcome string

// The outcomes of requests.
const (
	Allowed      Outcome = "allowed"
	Denied       Outcome = "denied"
	FailedOpen   Outcome = "failed_open"
	FailedClosed Outcome = "failed_closed"
	Exempt       Outcome = "exempt"

	// DryAllowed and DryDenied are the decisions of dry-run rules. Only metrics show them.
	DryAllowed Outcome = "dry_run_allowed"
	DryDenied  Outcome = "dry_run_denied"
)

// GoesOn reports whether the request goes on to the next handler.
func (o Outcome) GoesOn() bool { return o == Allowed || o == FailedOpen || o == Exempt }

// Reason is why a request is denied: the value of {http.redis_ratelimit.reason}.
type Reason string

// The reasons.
const (
	ReasonLimit   Reason = "limit"   // the client's quota does not suffice
	ReasonBan     Reason = "ban"     // the client is banned
	reasonBlock   Reason = "block"   // an override refuses the client
	ReasonReserve Reason = "reserve" // the units that are left are reserved for others

	ReasonMaxConcurrent Reason = "max_concurrent" // too many requests of the client are running
)

// ReasonOf returns why a source denies checks: the reason of the check that binds, see [limiter.Binding].
func ReasonOf(checks []limiter.Check, source limiter.Source) Reason {
	if source == SourceOverride {
		return reasonBlock
	}
	switch c := &checks[limiter.Binding(checks)]; {
	case c.Result.Banned:
		return ReasonBan
	case c.Result.ForOthers:
		return ReasonReserve
	case c.Policy.CountsRunning:
		return ReasonMaxConcurrent
	}
	return ReasonLimit
}

// refusal marks the errors by which this module refuses requests. An outer handler settles its checks by such an error as
// by a response of the same status: whether a refusal is returned as an error or written as a response depends on the
// error routes of the site, which may be there for other statuses.
type refusal struct{ error }

// Unwrap returns the reason of the refusal.
func (r refusal) Unwrap() error { return r.error }

// Refuse returns the error of a request that this module refuses with a status.
func Refuse(status int, reason error) caddyhttp.HandlerError {
	return caddyhttp.HandlerError{StatusCode: status, Err: refusal{reason}}
}

// errEarly is the error of a request that came before the client's address is verified.
var errEarly = errors.New("the client's address is not verified before the TLS handshake is complete")

// IsRefusal reports whether an error is one of [Refuse].
func IsRefusal(err error) bool { return errors.As(err, new(refusal)) }
