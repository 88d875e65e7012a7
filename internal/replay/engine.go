package replay

import (
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay/accesslog"
)

// Engine decides requests as a configuration would, on the clock of the log.
type Engine interface {
	// Policies are those of the configuration. The verdicts speak of them by their index.
	Policies() []PolicyResult

	// Play decides the request of an entry, at its time. The verdict is good until the next call.
	Play(e *accesslog.Entry) *Verdict

	// Skipped are the handlers of the configuration that were left out.
	Skipped() []string

	// KeyHeaders are the request headers that keys are made of; user_id stands for the user.
	KeyHeaders() []string

	// Warnings are sentences about what the configuration asks for and the log does not tell, as far
	// as it was played. They are fit for a terminal.
	Warnings() []string
}

// Verdict is what became of a request.
type Verdict struct {
	Outcome Outcome

	// Decisions are those of the policies that the request met.
	Decisions []Decision
}

// Decision is what one policy decided.
type Decision struct {
	Policy   int // index
	Key      string
	Weight   int64
	Denied   bool // in a dry run: would have been
	DryRun   bool // the policy only pretends
	Returned bool // the response has its units given back, or would have
	EmptyKey bool // a placeholder of the key was empty in the log
	LeftOut  bool // for that reason the policy did not count the request

	// SuggestKey is the key that limits are suggested for, where it is not the policy's own.
	SuggestKey string

	// RetryAfter is how long until the denied request would have passed, negative for never.
	RetryAfter time.Duration
}

// Outcome is what became of a request as a whole.
type Outcome string

// The outcomes.
const (
	Allowed    Outcome = "allowed"
	Denied     Outcome = "denied"
	Exempt     Outcome = "exempt"
	Unlimited  Outcome = "unlimited"  // it met no policy
	Rejected   Outcome = "rejected"   // its key was empty, and on_empty_key is reject
	Unplayable Outcome = "unplayable" // no server would have understood it
)
