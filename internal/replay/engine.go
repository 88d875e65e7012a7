package replay

import (
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay/accesslog"
)

// Engine decides requests as a configuration would, on the clock of the log.
type Engine interface {
	// Policies returns the policies of the configuration. A [PolicyDecision] names its policy by index.
	Policies() []PolicyResult

	// Play decides the request of an entry, at its time. The decision is valid until the next call.
	Play(e *accesslog.Entry) *Decision

	// Skipped returns the handlers of the configuration that were skipped.
	Skipped() []string

	// KeyHeaders returns the request headers in keys; user_id stands for the user.
	KeyHeaders() []string

	// Warnings returns sentences about data that the configuration uses and the log lacks, as far as it was
	// played. They are safe on a terminal.
	Warnings() []string
}

// Decision is what a configuration decides about a request.
type Decision struct {
	// Outcome is allowed, denied or exempt as that of a handler; or unlimited, rejected or unplayable.
	Outcome limiter.Outcome

	// Policies are the decisions of the policies that the request met.
	Policies []PolicyDecision
}

// PolicyDecision is the decision of one policy.
type PolicyDecision struct {
	Policy   int // index
	Key      string
	Weight   int64
	Reserve  int64 // units that stay for others
	Denied   bool  // also in a dry run
	DryRun   bool  // the decision has no effect
	Returned bool  // the response refunds its units, also in a dry run
	Taken    bool  // the policy took the weight: all that decided together admitted the request
	Charged  int64 // units beyond the weight that are charged after the response
	Refunded int64 // units of the weight that are refunded after the response
	EmptyKey bool  // a placeholder of the key was empty in the log
	LeftOut  bool  // the policy did not count the request for that reason
	Looks    bool  // the request looked first: the response charges its units, unless they are Returned
	Looked   bool  // the policy's count does not match: the request took nothing, and weighs nothing

	// RetryAfter is the time until the denied request would have passed; negative for never.
	RetryAfter time.Duration
}
