package display

import (
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// PolicyDescription is a policy with the settings that are the same wherever its name is used, and the handlers that use it.
type PolicyDescription struct {
	Name      string `json:"name"`
	Algorithm string `json:"algorithm,omitempty"`

	// Limit is what counts where LimitFrom, a placeholder, has no limit. With Unlimited the policy is left out then.
	Limit     int64  `json:"limit,omitempty"`
	LimitFrom string `json:"limit_from,omitempty"`
	Unlimited bool   `json:"unlimited,omitempty"`

	// Window is the length of the window, or Calendar the period in its place, in a time zone.
	Window   DurationSeconds `json:"window,omitempty"`
	Calendar string          `json:"calendar,omitempty"`

	// CalendarStartFrom is the placeholder of the day on which a client's months begin, instead of that of Calendar.
	CalendarStartFrom string `json:"calendar_start_from,omitempty"`

	TimeZone string `json:"time_zone,omitempty"`

	Burst     int64            `json:"burst,omitempty"`
	BurstFrom string           `json:"burst_from,omitempty"`
	MaxDelay  *DurationSeconds `json:"max_delay,omitempty"`

	// MaxConcurrent stands instead of algorithm, limit and window. NodeTimeout is how long the requests of a node
	// count that Redis has lost contact with.
	MaxConcurrent     int64           `json:"max_concurrent,omitempty"`
	MaxConcurrentFrom string          `json:"max_concurrent_from,omitempty"`
	NodeTimeout       DurationSeconds `json:"node_timeout,omitempty"`

	Challenge *Challenge `json:"challenge,omitempty"`
	Ban       *Ban       `json:"ban,omitempty"`

	// Lease is the longest that a node takes units ahead for; 0: it would be too short. Nil: the policy has none.
	Lease *DurationSeconds `json:"lease,omitempty"`

	// IPv4Prefix and IPv6Prefix are the leading bits of addresses in keys that tell clients apart; nil: the default.
	IPv4Prefix *int `json:"ipv4_prefix,omitempty"`
	IPv6Prefix *int `json:"ipv6_prefix,omitempty"`

	// Handlers are those that use the policy, in the order of the routes.
	Handlers []Handler `json:"handlers,omitempty"`
}

// Options returns the options of the policy that are set, besides limit and window. The algorithm is one of them if it
// is not the default.
func (p *PolicyDescription) Options() []Option {
	var o options
	plain := p.Algorithm == "" || p.Algorithm == limiter.DefaultAlgorithm || p.Calendar != ""
	o.add(!plain, "algorithm", short(p.Algorithm))
	o.add(p.Burst > 0 || p.BurstFrom != "", "burst", p.burstText())
	if p.MaxDelay != nil {
		o.add(true, "max_delay", Compact(time.Duration(*p.MaxDelay)))
	}
	o.add(p.NodeTimeout > 0 && p.NodeTimeout != DurationSeconds(limiter.DefaultNodeTimeout), "node_timeout",
		Compact(time.Duration(p.NodeTimeout)))
	if p.Ban != nil {
		o.add(true, "ban", p.Ban.text())
	}
	if p.Challenge != nil {
		o.add(true, "challenge", p.Challenge.text())
	}
	if p.Lease != nil {
		o.add(true, "lease", leaseText(time.Duration(*p.Lease)))
	}
	if p.IPv4Prefix != nil {
		o.add(true, "ipv4_prefix", strconv.Itoa(*p.IPv4Prefix))
	}
	if p.IPv6Prefix != nil {
		o.add(true, "ipv6_prefix", strconv.Itoa(*p.IPv6Prefix))
	}
	return o
}

// OwnBucket returns the options by which a bucket differs from one without a queue whose burst is the limit.
func (p *PolicyDescription) OwnBucket() []Option {
	var o options
	o.add(p.BurstFrom != "" || p.Burst > 0 && p.Burst != p.Limit, "burst", p.burstText())
	if p.MaxDelay != nil { // 0 has a meaning too
		o.add(true, "max_delay", Compact(time.Duration(*p.MaxDelay)))
	}
	return o
}

// Challenge is how many passes a key has, and the limit of each; 0: that of the policy.
type Challenge struct {
	Passes int   `json:"passes"`
	Limit  int64 `json:"limit,omitempty"`
}

// Ban is whom a policy bans: clients with so many denials within a window, for these durations, each for one more
// offense.
type Ban struct {
	Durations []DurationSeconds `json:"durations"`
	After     int               `json:"after"`
}

// Wait is how long a request waits at most, and how many requests of a key do on each node. By is the template of the values
// that turns go round by; empty: turns go by arrival.
type Wait struct {
	Longest DurationSeconds `json:"longest"`
	Most    int             `json:"most"`
	By      string          `json:"by,omitempty"`
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

	// Count is what those requests must be that take; the others look. Empty: all take.
	Count string `json:"count,omitempty"`

	// Key is the template of the clients' keys. RawKey says that values of bodies are not folded. OnEmptyKey is empty for the
	// default.
	Key        string `json:"key"`
	RawKey     bool   `json:"raw_key,omitempty"`
	OnEmptyKey string `json:"on_empty_key,omitempty"`

	// Weight is what counts where WeightFrom, a placeholder, llm or calls, has no weight; 0 is 1.
	Weight     int64  `json:"weight,omitempty"`
	WeightFrom string `json:"weight_from,omitempty"`

	// CountIf is what responses must be for their requests to count; empty: all count.
	CountIf string `json:"count_if,omitempty"`

	// InFlight is how many units of a key may be on their way on each node before one is taken. Nil: the default.
	InFlight *int64 `json:"in_flight,omitempty"`

	// Cost is what a request costs in all, known after its response. CostFallback is the cost of one that tells none.
	Cost         string `json:"cost,omitempty"`
	CostFallback int64  `json:"cost_fallback,omitempty"`

	// Wait is how requests wait for others of their key to end; nil: they do not.
	Wait *Wait `json:"wait,omitempty"`

	// Reserve is what must stay for others: units, or percent of the capacity.
	Reserve string `json:"reserve,omitempty"`

	// OpensReserve says that browsers that are refused what is reserved wait on a page, and may use all of it afterwards.
	OpensReserve bool `json:"challenge_opens_reserve,omitempty"`

	// ChallengePage is the file of the page on which browsers wait; empty: the built-in page.
	ChallengePage string `json:"challenge_page,omitempty"`

	// Enforce is the percentage of the keys that the policy is enforced for; nil: all. For the others it is a dry run.
	Enforce *float64 `json:"enforce,omitempty"`
	DryRun  bool     `json:"dry_run,omitempty"`

	// Unshown says that the handler's RateLimit and RateLimit-Policy leave the policy out, as its units have no name there.
	Unshown bool `json:"left_out_of_ietf_headers,omitempty"`

	// Notify are the percentages of the capacity at which events are emitted.
	Notify []float64 `json:"notify,omitempty"`
}

// defaultKey is the key of a policy that names none.
const defaultKey = "{http.vars.client_ip}"

// options returns the options of the handler that are set.
func (h *Handler) options() []Option {
	var o options
	o.add(h.Match != "", "match", Escape(h.Match))
	o.add(h.Count != "", "count", Escape(h.Count))
	o.add(h.OnUnread != "", "on_unread", short(h.OnUnread))
	o.add(h.Key != defaultKey && h.Key != "", "key", short(h.Key))
	o.add(h.RawKey, "raw_key", "")
	o.add(h.OnEmptyKey != "", "on_empty_key", short(h.OnEmptyKey))
	o.add(h.Weight > 1 || h.WeightFrom != "", "weight", orElse(h.WeightFrom, Count(max(1, h.Weight))))
	o.add(h.CountIf != "", "count_if", short(h.CountIf))
	if h.InFlight != nil {
		o.add(true, "in_flight", Count(*h.InFlight))
	}
	o.add(h.Cost != "", "cost", h.costText())
	if h.Wait != nil {
		o.add(true, "wait", h.Wait.text())
	}
	o.add(h.Reserve != "", "reserve", h.reserveText())
	o.add(h.OpensReserve, "challenge", "opens what is reserved")
	o.add(h.ChallengePage != "", "challenge page", Escape(h.ChallengePage))
	if h.Enforce != nil {
		o.add(true, "enforce", percent(*h.Enforce))
	}
	var marks []string
	for _, mark := range h.Notify {
		marks = append(marks, percent(mark))
	}
	o.add(len(marks) > 0, "notify", strings.Join(marks, " "))
	o.add(h.DryRun, "dry_run", "")
	o.add(h.Unshown, "headers", "RateLimit and RateLimit-Policy leave it out, as its units have no name there")
	return o
}

// UnusableOption says what follows if an option of a request has no usable value, unless the request is refused.
func UnusableOption(option string) string {
	switch option {
	case "key":
		return "the client's address counts"
	case "match":
		return "by on_unread the policy is left out"
	case "count":
		return "by on_unread the request takes units"
	}
	return "its fallback counts"
}

// DurationSeconds is a duration, in JSON a number of seconds.
type DurationSeconds time.Duration

// MarshalJSON implements [json.Marshaler].
func (s DurationSeconds) MarshalJSON() ([]byte, error) {
	return json.Marshal(time.Duration(s).Seconds())
}

// UnmarshalJSON implements [json.Unmarshaler].
func (s *DurationSeconds) UnmarshalJSON(text []byte) error {
	var seconds float64
	if err := json.Unmarshal(text, &seconds); err != nil {
		return err
	}
	*s = DurationSeconds(math.Round(seconds * float64(time.Second)))
	return nil
}

// AddHandler adds a handler that uses the policy, unless one with the same options in the same place is there.
func (p *PolicyDescription) AddHandler(h Handler) {
	same := func(other Handler) bool { return reflect.DeepEqual(h, other) }
	if !slices.ContainsFunc(p.Handlers, same) {
		p.Handlers = append(p.Handlers, h)
	}
}

// CountsRunning reports whether the policy counts requests while they run, and not in a window.
func (p *PolicyDescription) CountsRunning() bool {
	return p.MaxConcurrent > 0 || p.MaxConcurrentFrom != ""
}

// Key returns the template of the keys of the first handler.
func (p *PolicyDescription) Key() string {
	if len(p.Handlers) == 0 {
		return ""
	}
	return p.Handlers[0].Key
}

// DryRun reports whether the first handler only pretends.
func (p *PolicyDescription) DryRun() bool { return len(p.Handlers) > 0 && p.Handlers[0].DryRun }
