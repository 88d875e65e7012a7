// Package adminapi holds the questions and answers of the admin API below /redis_ratelimit/, for the server
// and its callers, and the log of warnings that the live page lists. Times are in seconds, with as many decimals as
// they have. Keys are in the form of [display.EscapeKey].
package adminapi

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/display"
)

// PoliciesReport answers GET /redis_ratelimit/policies.
type PoliciesReport struct {
	// Version and Caddy are the versions of this module and of Caddy, "(devel)" if they were built from a folder.
	Version string `json:"version"`
	Caddy   string `json:"caddy"`

	Store    StoreReport    `json:"store"`
	Policies []PolicyReport `json:"policies"`
}

// StoreReport is where the counts live, and the state of that store.
type StoreReport struct {
	// Kind is redis or memory.
	Kind string `json:"kind"`

	// Mode, Addresses, Database, KeyPrefix and HashKeys are those of Redis.
	Mode      string   `json:"mode,omitempty"`
	Addresses []string `json:"addresses,omitempty"`
	Database  int      `json:"database,omitempty"`
	KeyPrefix string   `json:"key_prefix,omitempty"`
	HashKeys  bool     `json:"hash_keys,omitempty"`

	// Advice is what to know of the default KeyPrefix, which other sites may have too.
	Advice string `json:"advice,omitempty"`

	// Healthy is true if the store decides requests now. Error is the reason if it does not.
	Healthy bool   `json:"healthy"`
	Error   string `json:"error,omitempty"`

	// FailingSince is when this node noticed that the store does not decide; nil: by this question.
	FailingSince *time.Time `json:"failing_since,omitempty"`

	// DecidingSince is from when on Redis has decided without an outage that this node noticed.
	DecidingSince *time.Time `json:"deciding_since,omitempty"`

	// RoundTrip is how long Redis took to decide just now, for a reserved key, in seconds. On a Cluster it
	// is the sum over all masters.
	RoundTrip float64 `json:"round_trip,omitempty"`

	// Breaker is closed, or open while no requests are sent to Redis or to some masters of a Cluster.
	// NextProbe is then the time until the next probe, in seconds.
	Breaker   string  `json:"breaker,omitempty"`
	NextProbe float64 `json:"next_probe,omitempty"`

	// FailMode is the default of all handlers. Timeout is how long a request waits, in seconds.
	FailMode string  `json:"fail_mode,omitempty"`
	Timeout  float64 `json:"timeout,omitempty"`

	// MemoryKeys counts the keys in the in-process store. MaxKeys is their bound.
	MemoryKeys int64 `json:"memory_keys"`
	MaxKeys    int64 `json:"max_keys"`
}

// PolicyReport is a policy of the running configuration. Handlers in no route of Caddy's own have no place.
type PolicyReport struct {
	display.PolicyDescription

	// Running are the units of the running requests of this node; nil unless the policy counts these.
	Running *int64 `json:"running,omitempty"`

	// Looking are the units of requests on their way on this node that have taken none so far, and may be charged by their
	// response; nil unless the policy has count_if, by which some do.
	Looking *int64 `json:"looking,omitempty"`

	// Waiting is what waits on this node for requests to end; nil unless requests of the policy wait.
	Waiting *WaitingReport `json:"waiting,omitempty"`

	// SinceStart is what this node has counted.
	SinceStart CountsReport `json:"since_start"`

	// Override is that of all clients without one of their own. ClientOverrides counts those of one client.
	Override        *OverrideEntry `json:"override,omitempty"`
	ClientOverrides int            `json:"client_overrides,omitempty"`
}

// WaitingReport counts the requests that wait on a node. Oldest is for how many seconds the oldest has waited so far.
type WaitingReport struct {
	Requests int     `json:"requests"`
	Oldest   float64 `json:"oldest"`
}

// CountsReport counts the requests that a policy has met on this node since its process has the policy. Reloads end
// nothing.
type CountsReport struct {
	Since time.Time `json:"since"`

	// Met counts all of them: those that the policy denied or, in a dry run, would have denied, those that only others
	// denied, those that the fail mode let through or refused, and those that passed.
	Met           int64 `json:"met"`
	Denied        int64 `json:"denied"`
	WouldBeDenied int64 `json:"would_be_denied"`
	DeniedByOther int64 `json:"denied_by_other"`
	FailedOpen    int64 `json:"failed_open"`
	FailedClosed  int64 `json:"failed_closed"`

	// Counted counts those that passed, less those that count_if did not count, and those that only looked.
	Counted int64 `json:"counted"`

	// Looked counts those that passed and took nothing, as count did not match them; nil unless the policy has count.
	Looked *int64 `json:"looked,omitempty"`

	// ReserveDenied counts those that were denied since what was left is reserved; nil unless the policy has reserve.
	ReserveDenied *int64 `json:"reserve_denied,omitempty"`

	// CountIf is what count_if made of responses; nil unless the policy has it.
	CountIf *CountIfReport `json:"count_if,omitempty"`
}

// CountIfReport counts responses that count_if judged, and those that it matched.
type CountIfReport struct {
	Responses int64 `json:"responses"`
	Matched   int64 `json:"matched"`
}

// BansReport answers GET /redis_ratelimit/bans. With the status 503 it has what was found until Redis did
// not answer.
type BansReport struct {
	Error string `json:"error,omitempty"`

	// Complete is false if there are more bans, or the search took too long.
	Complete bool       `json:"complete"`
	Bans     []BanEntry `json:"bans"`
}

// BanEntry is a client that is banned for so many seconds more, by its so many-th offense.
type BanEntry struct {
	Policy   string  `json:"policy"`
	Key      string  `json:"key"`
	Banned   float64 `json:"banned"`
	Offenses int64   `json:"offenses"`
}

// QuotaRequest is the body of POST /redis_ratelimit/state and reset. Without a key it means all keys of the
// policy.
type QuotaRequest struct {
	Policy string `json:"policy"`
	Key    Given  `json:"key,omitzero"`
}

// Given is a text that may be left out, such as a key in the form of [display.EscapeKey].
type Given struct {
	Text  string
	Given bool
}

// GivenAs returns a text that is given.
func GivenAs(text string) Given { return Given{text, true} }

// MarshalJSON implements [json.Marshaler].
func (g Given) MarshalJSON() ([]byte, error) { return json.Marshal(g.Text) }

// UnmarshalJSON implements [json.Unmarshaler]. It refuses null: a caller that lost its key must not reset all clients,
// and one that lost its duration must not set an override without an end.
func (g *Given) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		return errors.New("null is no key and no duration; leave the field out for all keys, or for no end")
	}
	g.Given = true
	return json.Unmarshal(text, &g.Text)
}

// StateReport answers POST /redis_ratelimit/state. With the status 503 Redis did not answer, and the quota is
// that of this node. Without a state on this node, quota and source are missing.
type StateReport struct {
	Error  string `json:"error,omitempty"`
	Policy string `json:"policy"`
	Key    string `json:"key"`
	*QuotaReport
	Source   string         `json:"source,omitempty"`
	Override *OverrideEntry `json:"override,omitempty"`

	// Passes are the quotas of the key's passes that are in use.
	Passes []PassReport `json:"passes,omitempty"`

	// Leased is units that this node has taken ahead, which Redis counts as used.
	Leased *LeasedReport `json:"leased,omitempty"`

	// Waiting is what waits on this node for requests of the key to end; nil unless requests of the policy wait.
	Waiting *WaitingReport `json:"waiting,omitempty"`

	// DryRun is true if no handler limits the key: all that use the policy are dry runs, or enforce it for
	// other keys.
	DryRun bool             `json:"dry_run,omitempty"`
	Hint   string           `json:"hint,omitempty"`
	Keys   []RedisKeyReport `json:"keys,omitempty"`

	// Node names this node in the values of the keys that count running requests by node.
	Node string `json:"node,omitempty"`
}

// LeasedReport is units that a node has taken ahead and may spend for so many seconds.
type LeasedReport struct {
	Units int64   `json:"units"`
	Lasts float64 `json:"lasts"`
}

// QuotaReport is a quota, and when a request of weight 1 would pass.
type QuotaReport struct {
	Limit      int64   `json:"limit"`
	Remaining  int64   `json:"remaining"`
	RetryAfter float64 `json:"retry_after"`
	ResetAfter float64 `json:"reset_after"`

	// Banned is how long the client is still banned; missing if it is not.
	Banned float64 `json:"banned,omitempty"`
}

// RedisKeyReport is a key in Redis. TTL is in seconds; -1 if the key does not expire.
type RedisKeyReport struct {
	Name  string         `json:"name"`
	Type  string         `json:"type"`
	TTL   float64        `json:"ttl"`
	Value map[string]any `json:"value,omitempty"`
}

// ResetReport answers POST /redis_ratelimit/reset.
type ResetReport struct {
	Error string `json:"error,omitempty"`

	// Deleted counts the quotas that were reset in the store: in Redis, or in this process without one. With
	// the status 503 it counts those on the masters that answered.
	Deleted int64 `json:"deleted"`

	// DeletedHere counts, with the status 503, those in the fallback of this node.
	DeletedHere int64 `json:"deleted_here,omitempty"`

	Hint string `json:"hint,omitempty"`
}

// TopAnswer answers GET /redis_ratelimit/top: a [TopReport], or a [UsedReport] with by=used.
type TopAnswer interface{ answersTop() }

func (TopReport) answersTop()  {}
func (UsedReport) answersTop() {}

// TopReport lists the keys that were denied most.
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

	// Banned is how long the client is still banned; missing if it is not.
	Banned float64 `json:"banned,omitempty"`
}

// UsedReport lists the keys that have used most. With the status 503 it has what the nodes know that answered.
type UsedReport struct {
	Error string `json:"error,omitempty"`

	// Since is how far back the counts go, in seconds.
	Since float64 `json:"since"`

	// Nodes is how many nodes have counted: 1, or with nodes=all this one and those that answered.
	Nodes int         `json:"nodes"`
	Keys  []UsedEntry `json:"keys"`
}

// UsedEntry is a key that has used many units: with a probability of 95 % Used ± Error. The error has the bound of the list,
// which always holds, and the error of sampling.
type UsedEntry struct {
	Policy string `json:"policy"`
	Key    string `json:"key"`
	Used   int64  `json:"used"`
	Error  int64  `json:"error"`
}
