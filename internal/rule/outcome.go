package rule

import "github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"

// SourceOverride is the source of what an operator has set, without a store.
const SourceOverride limiter.Source = "override"

// Outcome is what became of a request: the value of {http.redis_ratelimit.decision}.
type Outcome string

// The outcomes of requests.
const (
	Allowed      Outcome = "allowed"
	Denied       Outcome = "denied"
	FailedOpen   Outcome = "failed_open"
	FailedClosed Outcome = "failed_closed"
	Exempt       Outcome = "exempt"

	// DryAllowed and DryDenied are what dry-run rules would have done; only metrics show them.
	DryAllowed Outcome = "dry_run_allowed"
	DryDenied  Outcome = "dry_run_denied"
)
