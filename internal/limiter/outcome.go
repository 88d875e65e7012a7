package limiter

// The words for what happened to a request: its outcome, the reason of a denial, and the source that has decided. A handler's
// decision (internal/gate: Decision) has one of each. Header fields, refusals, logs, placeholders, metrics, events, the webhook,
// explain and replay read these.

// Outcome is what happened to a request, or would: the value of {http.redis_ratelimit.decision}. It is empty before anything is
// decided.
type Outcome string

// The outcomes of a handler's decision.
const (
	OutcomeAllowed      Outcome = "allowed"
	OutcomeDenied       Outcome = "denied"
	OutcomeFailedOpen   Outcome = "failed_open"   // no store has decided, and the request goes on
	OutcomeFailedClosed Outcome = "failed_closed" // no store has decided, and the request is refused
	OutcomeExempt       Outcome = "exempt"

	// OutcomeAbandoned is that of a request that ended before a store had decided: its client left, its time was up, its body
	// failed, there was no room to wait, or the process exits. Nothing shows it.
	OutcomeAbandoned Outcome = "undecided"

	// OutcomeDryAllowed and OutcomeDryDenied are those of dry-run rules. Only metrics show them.
	OutcomeDryAllowed Outcome = "dry_run_allowed"
	OutcomeDryDenied  Outcome = "dry_run_denied"
)

// The outcomes that explain and replay have besides.
const (
	OutcomeUnlimited  Outcome = "unlimited"  // replay: the request met no policy; explain: a placeholder says that it has no limit
	OutcomeRejected   Outcome = "rejected"   // a policy refuses the request without a decision, such as for an empty key
	OutcomeUnplayable Outcome = "unplayable" // replay: no server would have accepted the request
)

// GoesOn reports whether the request goes on to the next handler.
func (o Outcome) GoesOn() bool {
	return o == OutcomeAllowed || o == OutcomeFailedOpen || o == OutcomeExempt
}

// Reason is why a request is denied: the value of {http.redis_ratelimit.reason}. It is empty if the request is not.
type Reason string

// The reasons.
const (
	ReasonLimit   Reason = "limit"   // the client's quota does not suffice
	ReasonBan     Reason = "ban"     // the client is banned
	ReasonBlock   Reason = "block"   // an override refuses the client
	ReasonReserve Reason = "reserve" // the units that are left are reserved for others

	ReasonMaxConcurrent Reason = "max_concurrent" // too many requests of the client are running
)

// ReasonOf returns why a source denies checks: the reason of the check that binds, see [Binding].
func ReasonOf(checks []Check, source Source) Reason {
	if source == SourceOverride {
		return ReasonBlock
	}
	switch c := &checks[Binding(checks)]; {
	case c.Result.Banned:
		return ReasonBan
	case c.Result.ForOthers:
		return ReasonReserve
	case c.Policy.CountsRunning:
		return ReasonMaxConcurrent
	}
	return ReasonLimit
}

// Source names what has decided: the value of {http.redis_ratelimit.source}.
type Source string

// The sources of a decision.
const (
	SourceRedis     Source = "redis"
	SourceMemory    Source = "memory" // this process alone: there is no shared store, a limit is 0, or no place for a request is free on this node
	SourceFallback  Source = "fallback"
	SourceDenyCache Source = "deny_cache"
	SourceLease     Source = "lease" // units of the shared store that were taken ahead

	// SourceOverride is an override, by which a handler decides without a store.
	SourceOverride Source = "override"
)
