// Package adminapi says what is asked and answered at the admin API below /redis_ratelimit/, for those
// who serve it and those who call it. Times are seconds, with as many decimals as they have; keys are in
// the form of [KeyText].
package adminapi

import (
	"encoding/json"
	"errors"
)

// PoliciesReport answers GET /redis_ratelimit/policies.
type PoliciesReport struct {
	Store    StoreReport    `json:"store"`
	Policies []PolicyReport `json:"policies"`
}

// StoreReport tells where the counts live and how that is.
type StoreReport struct {
	// Kind is redis or memory.
	Kind string `json:"kind"`

	// Mode, Addresses, Database and KeyPrefix are those of Redis.
	Mode      string   `json:"mode,omitempty"`
	Addresses []string `json:"addresses,omitempty"`
	Database  int      `json:"database,omitempty"`
	KeyPrefix string   `json:"key_prefix,omitempty"`
	HashKeys  bool     `json:"hash_keys,omitempty"`

	// Healthy reports whether the store decides requests now; Error why it does not.
	Healthy bool   `json:"healthy"`
	Error   string `json:"error,omitempty"`

	// RoundTrip is how long Redis took to decide just now, for a reserved key, in seconds. On a Cluster
	// every master did, one after the other.
	RoundTrip float64 `json:"round_trip,omitempty"`

	// Breaker is closed, or open while requests are kept from Redis or from a part of a Cluster;
	// NextProbe is then how long it is until the next probe, in seconds.
	Breaker   string  `json:"breaker,omitempty"`
	NextProbe float64 `json:"next_probe,omitempty"`

	// FailMode is the default of all handlers; Timeout how long a request waits, in seconds.
	FailMode string  `json:"fail_mode,omitempty"`
	Timeout  float64 `json:"timeout,omitempty"`

	// MemoryKeys counts the shares known in this process, MaxKeys is their bound.
	MemoryKeys int64 `json:"memory_keys"`
	MaxKeys    int64 `json:"max_keys"`
}

// PolicyReport is a policy as the running configuration has it.
type PolicyReport struct {
	Name       string   `json:"name"`
	Algorithm  string   `json:"algorithm"`
	Limit      int64    `json:"limit"`
	LimitFrom  string   `json:"limit_from,omitempty"`
	Window     float64  `json:"window"`
	Burst      int64    `json:"burst,omitempty"`
	BurstFrom  string   `json:"burst_from,omitempty"`
	MaxDelay   *float64 `json:"max_delay,omitempty"`
	IPv4Prefix int      `json:"ipv4_prefix"`
	IPv6Prefix int      `json:"ipv6_prefix"`
}

// QuotaRequest asks for POST /redis_ratelimit/state and reset. Without a key it is about all of the
// policy.
type QuotaRequest struct {
	Policy string   `json:"policy"`
	Key    GivenKey `json:"key,omitzero"`
}

// GivenKey is a key in the form of [KeyText] that may be left out.
type GivenKey struct {
	Text  string
	Given bool
}

// MarshalJSON implements [json.Marshaler].
func (k GivenKey) MarshalJSON() ([]byte, error) { return json.Marshal(k.Text) }

// UnmarshalJSON implements [json.Unmarshaler]. A null is refused, because whoever lost a key on the way
// did not ask to forget everybody's.
func (k *GivenKey) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		return errors.New("key: null is none; leave it out for all of a policy")
	}
	k.Given = true
	return json.Unmarshal(text, &k.Text)
}

// StateReport answers POST /redis_ratelimit/state. With the status 503, Redis did not tell, and the
// share is the one that this node knows; where it knows none, there is neither a share nor a source.
type StateReport struct {
	Error  string `json:"error,omitempty"`
	Policy string `json:"policy"`
	Key    string `json:"key"`
	*QuotaReport
	Source string           `json:"source,omitempty"`
	Hint   string           `json:"hint,omitempty"`
	Keys   []RedisKeyReport `json:"keys,omitempty"`
}

// QuotaReport is a share, and what a request of weight 1 would get.
type QuotaReport struct {
	Limit      int64   `json:"limit"`
	Remaining  int64   `json:"remaining"`
	RetryAfter float64 `json:"retry_after"`
	ResetAfter float64 `json:"reset_after"`
}

// RedisKeyReport is a key in Redis. TTL is in seconds, -1 where the key has no end.
type RedisKeyReport struct {
	Name  string         `json:"name"`
	Type  string         `json:"type"`
	TTL   float64        `json:"ttl"`
	Value map[string]any `json:"value,omitempty"`
}

// ResetReport answers POST /redis_ratelimit/reset.
type ResetReport struct {
	Error string `json:"error,omitempty"`

	// Deleted counts the shares that were forgotten where the counts live: in Redis, or in this process.
	// With the status 503 they are those of the part of Redis that could be asked.
	Deleted int64 `json:"deleted"`

	// DeletedHere counts, with the status 503, those that this node had kept for an outage.
	DeletedHere int64 `json:"deleted_here,omitempty"`

	Hint string `json:"hint,omitempty"`
}

// TopReport answers GET /redis_ratelimit/top.
type TopReport struct {
	// Since is how far back the counts go, in seconds.
	Since float64    `json:"since"`
	Keys  []TopEntry `json:"keys"`
}

// TopEntry is a key that was denied often: at most Denied times, and at least Denied-Error times.
type TopEntry struct {
	Policy string `json:"policy"`
	Key    string `json:"key"`
	Denied int64  `json:"denied"`
	Error  int64  `json:"error"`
}

// ExplainRequest asks for POST /redis_ratelimit/explain.
type ExplainRequest struct {
	Method   string                  `json:"method"`
	URL      string                  `json:"url"`
	Headers  map[string]HeaderValues `json:"headers"`
	ClientIP string                  `json:"client_ip"`
}

// HeaderValues are those of one header: a list, or a single text.
type HeaderValues []string

// UnmarshalJSON implements [json.Unmarshaler].
func (v *HeaderValues) UnmarshalJSON(text []byte) error {
	var one string
	if err := json.Unmarshal(text, &one); err == nil {
		*v = HeaderValues{one}
		return nil
	}
	return json.Unmarshal(text, (*[]string)(v))
}

// ExplainReport answers it: what the handlers that such a request meets would decide.
type ExplainReport struct {
	Error string `json:"error,omitempty"`

	// Server is the name of the server that takes such a request.
	Server string `json:"server"`

	// Decision is allowed, denied, exempt, or none where the request meets no policy.
	Decision string `json:"decision"`

	Policies []ExplainedPolicy `json:"policies"`

	// Skipped are the handlers on the request's way that were left out, because only a real request can
	// pass them.
	Skipped []string `json:"skipped,omitempty"`
}

// ExplainedPolicy is what one policy would decide. Those that a request does not meet have the
// decision not_matched, and those whose key is empty the decision skipped or rejected.
type ExplainedPolicy struct {
	Policy   string `json:"policy"`
	Key      string `json:"key,omitempty"`
	Decision string `json:"decision"`
	DryRun   bool   `json:"dry_run,omitempty"`
	Weight   int64  `json:"weight,omitempty"`
	QuotaReport
	Source string `json:"source,omitempty"`
}
