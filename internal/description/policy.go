// Package description describes policies, in numbers and in words: once for the admin API, the commands that ask it,
// explain, replay and its report. The text of a configuration stands in a description as it is: escape it to show it.
package description

import (
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// Policy is a policy with the settings that are the same wherever its name is used, and the handlers that use it.
type Policy struct {
	Name      string `json:"name"`
	Algorithm string `json:"algorithm,omitempty"`

	// Limit is what counts where LimitFrom, a placeholder, has no limit. With Unlimited the policy is left out then.
	Limit     int64  `json:"limit,omitempty"`
	LimitFrom string `json:"limit_from,omitempty"`
	Unlimited bool   `json:"unlimited,omitempty"`

	// Window is the length of the window, or Calendar the period in its place, in a time zone.
	Window   Seconds `json:"window,omitempty"`
	Calendar string  `json:"calendar,omitempty"`
	TimeZone string  `json:"time_zone,omitempty"`

	Burst     int64    `json:"burst,omitempty"`
	BurstFrom string   `json:"burst_from,omitempty"`
	MaxDelay  *Seconds `json:"max_delay,omitempty"`

	// MaxConcurrent stands instead of algorithm, limit and window. NodeTimeout is how long the requests of a node
	// count that Redis has lost contact with.
	MaxConcurrent     int64   `json:"max_concurrent,omitempty"`
	MaxConcurrentFrom string  `json:"max_concurrent_from,omitempty"`
	NodeTimeout       Seconds `json:"node_timeout,omitempty"`

	Challenge *Challenge `json:"challenge,omitempty"`
	Ban       *Ban       `json:"ban,omitempty"`

	// Lease is the longest that a node takes units ahead for; 0: it would be too short. Nil: the policy has none.
	Lease *Seconds `json:"lease,omitempty"`

	// IPv4Prefix and IPv6Prefix are the leading bits of addresses in keys that tell clients apart; nil: the default.
	IPv4Prefix *int `json:"ipv4_prefix,omitempty"`
	IPv6Prefix *int `json:"ipv6_prefix,omitempty"`

	// Handlers are those that use the policy, in the order of the routes.
	Handlers []Handler `json:"handlers,omitempty"`
}

// Challenge is how many passes a key has, and the limit of each; 0: that of the policy.
type Challenge struct {
	Passes int   `json:"passes"`
	Limit  int64 `json:"limit,omitempty"`
}

// Ban is whom a policy bans: clients with so many denials within a window, for these durations, each for one more
// offense.
type Ban struct {
	Durations []Seconds `json:"durations"`
	After     int       `json:"after"`
}

// Wait is how long a request waits at most, and how many requests of a key do on each node. By is the template of the values
// that turns go round by; empty: turns go by arrival.
type Wait struct {
	Longest Seconds `json:"longest"`
	Most    int     `json:"most"`
	By      string  `json:"by,omitempty"`
}

// Handler is a handler that uses a policy, with the options that are its own.
type Handler struct {
	// Place is the server, where it listens, and what requests must be to come there. It is empty for a handler that
	// stands in no route of Caddy's own, and where no server runs.
	Place string `json:"place,omitempty"`

	// Match is what requests must be for the policy to count them, beside that; empty: all count. OnUnread is empty for the
	// default.
	Match    string `json:"match,omitempty"`
	OnUnread string `json:"on_unread,omitempty"`

	// Key is the template of the clients' keys. RawKey says that values of bodies are not folded. OnEmptyKey is empty for the
	// default.
	Key        string `json:"key"`
	RawKey     bool   `json:"raw_key,omitempty"`
	OnEmptyKey string `json:"on_empty_key,omitempty"`

	// Weight is what counts where WeightFrom, a placeholder or llm, has no weight; 0 is 1.
	Weight     int64  `json:"weight,omitempty"`
	WeightFrom string `json:"weight_from,omitempty"`

	// CountIf is what responses must be for their requests to count; empty: all count.
	CountIf string `json:"count_if,omitempty"`

	// Cost is what a request costs in all, known after its response. CostFallback is the cost of one that tells none.
	Cost         string `json:"cost,omitempty"`
	CostFallback int64  `json:"cost_fallback,omitempty"`

	// Wait is how requests wait for others of their key to end; nil: they do not.
	Wait *Wait `json:"wait,omitempty"`

	// Reserve is what must stay for others: units, or percent of the capacity.
	Reserve string `json:"reserve,omitempty"`

	// Enforce is the percentage of the keys that the policy is enforced for; nil: all. For the others it is a dry run.
	Enforce *float64 `json:"enforce,omitempty"`
	DryRun  bool     `json:"dry_run,omitempty"`

	// Unshown says that the handler's RateLimit and RateLimit-Policy leave the policy out, as its units have no name there.
	Unshown bool `json:"left_out_of_ietf_headers,omitempty"`

	// Notify are the percentages of the capacity at which events are emitted.
	Notify []float64 `json:"notify,omitempty"`
}

// Seconds is a duration, in JSON a number of seconds.
type Seconds time.Duration

// MarshalJSON implements [json.Marshaler].
func (s Seconds) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(s).Seconds()) }

// UnmarshalJSON implements [json.Unmarshaler].
func (s *Seconds) UnmarshalJSON(text []byte) error {
	var seconds float64
	if err := json.Unmarshal(text, &seconds); err != nil {
		return err
	}
	*s = Seconds(math.Round(seconds * float64(time.Second)))
	return nil
}

// The prefixes of policies that name none.
const (
	defaultIPv4Prefix = 32
	defaultIPv6Prefix = 64
)

// SetPrefixes sets the leading bits of addresses, if they are not the default.
func (p *Policy) SetPrefixes(ipv4, ipv6 int) {
	if ipv4 != defaultIPv4Prefix {
		p.IPv4Prefix = &ipv4
	}
	if ipv6 != defaultIPv6Prefix {
		p.IPv6Prefix = &ipv6
	}
}

// Of describes a policy by its settings. Options that a policy of the limiter does not know are missing.
func Of(s limiter.Settings) Policy {
	p := Policy{
		Name: s.Name, Algorithm: s.Algorithm, Limit: s.Limit, MaxConcurrent: s.MaxConcurrent,
		Calendar: s.Calendar, TimeZone: s.Zone(), Burst: s.Burst, MaxDelay: (*Seconds)(s.MaxDelay),
		Handlers: []Handler{},
	}
	if s.Calendar == "" {
		p.Window = Seconds(s.Window)
	}
	if s.MaxConcurrent > 0 {
		p.Algorithm, p.NodeTimeout = "", Seconds(s.NodeTimeout)
	}
	if len(s.Ban) > 0 {
		p.Ban = &Ban{After: max(1, s.BanAfter)}
		for _, d := range s.Ban {
			p.Ban.Durations = append(p.Ban.Durations, Seconds(d))
		}
	}
	return p
}

// AddHandler adds a handler that uses the policy, unless one with the same options in the same place is there.
func (p *Policy) AddHandler(h Handler) {
	same := func(other Handler) bool { return reflect.DeepEqual(h, other) }
	if !slices.ContainsFunc(p.Handlers, same) {
		p.Handlers = append(p.Handlers, h)
	}
}

// CountsRunning reports whether the policy counts requests while they run, and not in a window.
func (p *Policy) CountsRunning() bool { return p.MaxConcurrent > 0 || p.MaxConcurrentFrom != "" }

// Key returns the template of the keys of the first handler.
func (p *Policy) Key() string {
	if len(p.Handlers) == 0 {
		return ""
	}
	return p.Handlers[0].Key
}

// DryRun reports whether the first handler only pretends.
func (p *Policy) DryRun() bool { return len(p.Handlers) > 0 && p.Handlers[0].DryRun }
