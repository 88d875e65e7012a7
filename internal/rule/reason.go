package rule

// Reason is why a request is denied: the value of {http.redis_ratelimit.reason}.
type Reason string

// The reasons.
const (
	ReasonLimit Reason = "limit" // the client's quota does not suffice
	ReasonBan   Reason = "ban"   // the client is banned
)
