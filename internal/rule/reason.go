package rule

import "github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"

// Reason is why a request is denied: the value of {http.redis_ratelimit.reason}.
type Reason string

// The reasons.
const (
	ReasonLimit Reason = "limit" // the client's quota does not suffice
	ReasonBan   Reason = "ban"   // the client is banned
	ReasonBlock Reason = "block" // an override refuses the client
	ReasonLeave Reason = "leave" // what is left must stay for others
)

// ReasonOf returns why checks are denied by a source: the reason of the one that binds.
func ReasonOf(checks []limiter.Check, source limiter.Source) Reason {
	if source == SourceOverride {
		return ReasonBlock
	}
	return reasonOf(&checks[limiter.Binding(checks)].Result)
}

// reasonOf returns why a store denies a check.
func reasonOf(r *limiter.Result) Reason {
	switch {
	case r.Banned:
		return ReasonBan
	case r.ForOthers:
		return ReasonLeave
	}
	return ReasonLimit
}
