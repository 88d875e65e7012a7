package redisratelimit

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/bodyplan"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/secretfile"
)

// Policy is a named limit. Its name is its identity: wherever a configuration uses the name, the
// limit, window, algorithm, burst and address prefixes must be the same, and the counts are shared.
type Policy struct {
	Common // of the handler, where they are left out

	// The policy's name: 1 to 64 letters, digits, `_` and `-`. Default: `default`.
	Name string `json:"name,omitempty"`

	// Whose quota a request takes from: text with placeholders. Default: `{http.vars.client_ip}`.
	Key string `json:"key,omitempty"`

	// How many units a client may use per window, from 1. Required, unless `unlimited` is true or there is
	// `max_concurrent`.
	Limit int64 `json:"limit,omitempty"`

	// The length of the window, from 1ms, in whole microseconds. Required, unless there is a calendar or
	// `max_concurrent`.
	Window caddy.Duration `json:"window,omitempty"`

	// Makes the windows periods of the calendar instead of ones of one length: `day`, `week` (which begins on
	// Monday), `month` or `year`. Only with `fixed_window`, which is the algorithm then. Default: none.
	Calendar string `json:"calendar,omitempty"`

	// The time zone of calendar periods, by its name in the IANA database, such as `Europe/Berlin`. Default:
	// `UTC`.
	TimeZone string `json:"time_zone,omitempty"`

	// How units are counted: `sliding_window_counter`, `sliding_window_log`, `fixed_window`,
	// `token_bucket`, `leaky_bucket` or `gcra`. Default: `sliding_window_counter`, of calendar periods
	// `fixed_window`.
	Algorithm string `json:"algorithm,omitempty"`

	// How many units a client may have running at once on all nodes, up to 1,000,000,000: a request counts from
	// its start to its end. Instead of `limit`, `window` and all that counts in windows or by responses.
	// Default: none.
	MaxConcurrent int64 `json:"max_concurrent,omitempty"`

	// A placeholder that `max_concurrent` comes from, as `limit_from`. Default: none.
	MaxConcurrentFrom string `json:"max_concurrent_from,omitempty"`

	// How long the running requests of a node count that Redis has lost contact with, from 5s to 10m. Only
	// with `max_concurrent`. Default: 15s.
	NodeTimeout caddy.Duration `json:"node_timeout,omitempty"`

	// Has requests wait for others to end instead of refusing them, in turns on all nodes together. Only with
	// `max_concurrent`, as the only policy of its handler. How long, how many and by what values belong to this handler and
	// not to the policy; that requests wait belongs to the policy. Default: what is denied is refused at once.
	Wait *Wait `json:"wait,omitempty"`

	// The capacity of a bucket, from 1: how many units may come at once. Only with `token_bucket`,
	// `leaky_bucket` and `gcra`. Default: the limit.
	Burst int64 `json:"burst,omitempty"`

	// A placeholder that the limit comes from, such as `{http.vars.plan_limit}`: a number, where 0 refuses
	// the request, or the word `unlimited`, which leaves the policy out for the request. Where it is
	// empty, something else, or no possible limit, `limit` counts. Default: none.
	LimitFrom string `json:"limit_from,omitempty"`

	// Whether the policy is left out for requests without a number in `limit_from` or `max_concurrent_from`,
	// instead of `limit` or `max_concurrent`, which is then left out too. Default: false.
	Unlimited bool `json:"unlimited,omitempty"`

	// A placeholder that the burst comes from; `burst` is what counts otherwise. Default: none.
	BurstFrom string `json:"burst_from,omitempty"`

	// A placeholder that the weight comes from; `weight` is what counts otherwise. A weight below 1
	// is 1. Or `llm`: how many tokens a call to a language model may cost, by its body, cut to the capacity: what it
	// bounds its answers by, or `weight`, times the number of answers, and a quarter of its texts' bytes. It
	// belongs to this handler and not to the policy. Default: none.
	WeightFrom string `json:"weight_from,omitempty"`

	// How many units one request takes, from 1. It belongs to this handler and not to the policy,
	// so that a costly path may weigh more in the same budget. Default: 1.
	Weight int64 `json:"weight,omitempty"`

	// How long a request may be held until it is its turn, instead of being refused, so that
	// requests leave evenly at the limit's rate on all nodes together. Only with
	// `token_bucket`, `leaky_bucket` and `gcra`; 0 spaces them strictly. Default: none is held.
	MaxDelay *caddy.Duration `json:"max_delay,omitempty"`

	// Refuses a client for a while that is denied too often. Default: none is banned.
	Ban *Ban `json:"ban,omitempty"`

	// Lets denied browsers wait on a page instead of refusing them, and gives those that have waited quotas of
	// their own. It excludes `ban`, `max_delay` and `max_concurrent`. Default: all are refused.
	Challenge *Challenge `json:"challenge,omitempty"`

	// For keys that are asked for again and again: a node takes units ahead in one question to Redis, and
	// decides requests with them for at most so long, and at most a hundredth of the window. What is left
	// over is given back. From 5ms to 1s. Without Redis it has no effect. It excludes `count_if`, `cost`,
	// `max_delay` and `ban`. Default: none, Redis decides every request.
	Lease caddy.Duration `json:"lease,omitempty"`

	// The policy counts only requests that one of these matcher sets matches. It belongs to this
	// handler and not to the policy. Default: all requests.
	Match caddyhttp.RawMatcherSets `json:"match,omitempty" caddy:"namespace=http.matchers"`

	// What happens to a request if `match` asks for a value of its body that cannot be read: `refuse` answers 400, 413 or
	// 415, `pass` leaves the policy out. Otherwise clients could choose such a body to be left out. It belongs to
	// this handler and not to the policy. Default: `refuse`.
	OnUnread string `json:"on_unread,omitempty"`

	// Keeps values of the body as they are written, where they stand in `key`. By default they lose blanks, marks and the
	// difference between lower and upper case, as applications take `Bob@example.com ` for `bob@example.com`. It belongs
	// to this handler and not to the policy. Default: false.
	RawKey bool `json:"raw_key,omitempty"`

	// The policy counts only requests whose response this matches. A charge is made before the
	// handlers run and refunded if the response, at its first final header, does not match. A
	// client that goes away, a panic, and an error of 500 and above that a handler returns count,
	// unless the request certainly reached no backend of a `reverse_proxy`, or the handler is
	// `error`. It belongs to this handler and not to the policy. Default: all count.
	CountIf *caddyhttp.ResponseMatcher `json:"count_if,omitempty"`

	// What a request costs in all, known after its response: `response_bytes`, the length of the response's
	// body as this handler sees it; a placeholder such as `{http.reverse_proxy.header.X-Tokens-Used}`; or `json`
	// and paths of numbers in a JSON body, in events or in lines of JSON, such as `json usage.total_tokens`. A
	// path is names and indexes of arrays joined by dots. `a|b` is the first of the numbers that is there, `a+b`
	// the sum, `a-b` the difference, in which a missing `b` is 0; of each path the last number counts. Factors
	// such as in `0.5*a+{http.vars.price}*b` are decimals of at most 6 places up to 10^6, or placeholders that
	// have one after the response. The sum is exact and rounded up. The weight is taken before. After the response what it took
	// too little is charged, into debt if need be, which later requests pay; what it took too much is refunded,
	// except a weight of 1. If the response breaks off before it tells its cost, at least the weight and the
	// fallback stay. A request that certainly reached no backend of a `reverse_proxy`, and a response from 400 on
	// that tells no cost, costs nothing. It belongs to this handler and not to the policy. With a weight above 1 or from a placeholder
	// it excludes `max_delay` and `ban`. Default: the weight stays.
	CostFrom string `json:"cost_from,omitempty"`

	// The cost of a response below 400 if the placeholder of `cost_from` is empty or no whole number from 0 to 2^52,
	// or if the body has no such number. Default: 0.
	Cost int64 `json:"cost,omitempty"`

	// What a request reserves for others, who are as much as it part of the client but matter more: it passes
	// only if so many units stay, such as `20`, or so much of the capacity, rounded up, such as `20%`.
	// Where limits come from placeholders or overrides it is at most the capacity less one. It belongs to
	// this handler and not to the policy. Default: nothing.
	Reserve Reserve `json:"reserve,omitempty"`

	// The percentage of the keys that are limited, from 0 to 100 with at most four decimals. For the others
	// the policy is a dry run. The keys are chosen by a hash of the policy's name and the key that is the
	// same on every node; those of a smaller percentage are among those of a larger one. It belongs to this
	// handler and not to the policy, and excludes `dry_run`. Default: 100.
	Enforce *float64 `json:"enforce,omitempty"`

	// The percentages of the capacity at which the event `redis_ratelimit.threshold` is emitted, when a
	// request makes a client's use reach them: above 0, up to 100, at most 10. On each node it comes at most
	// once for each key, percentage and window. It belongs to this handler and not to the policy. Default:
	// none.
	Notify []float64 `json:"notify,omitempty"`

	parsed rule.Rule // by check; see parseRule
}

// Common are the options that a handler may have for all its policies that leave them out.
type Common struct {
	// How many leading bits of an IPv4 address count, from 0 to 32, where `{http.vars.client_ip}`
	// or `{http.request.remote.host}` stands in a key. Default: 32.
	IPv4Prefix *int `json:"ipv4_prefix,omitempty"`

	// The same for IPv6, from 0 to 128. Default: 64, because a single client commonly has a whole
	// /64 of addresses.
	IPv6Prefix *int `json:"ipv6_prefix,omitempty"`

	// What is done when a placeholder of a key is empty, or a header, cookie or query parameter that
	// stands several times in the request: `client_ip` takes the client's address instead (marked, so
	// that no header value can be it), `skip` leaves the policy out, or answers 400 where the value is
	// repeated, `reject` answers 400. It belongs to this handler and not to the policy. Default:
	// `client_ip`.
	OnEmptyKey string `json:"on_empty_key,omitempty"`

	// Whether the policy only pretends: it decides, charges, counts and logs by itself, and never
	// denies nor shows in headers. Of a handler it holds for all its policies. Default: false.
	DryRun bool `json:"dry_run,omitempty"`
}

var commonDefaults = Common{IPv4Prefix: new(32), IPv6Prefix: new(64), OnEmptyKey: string(rule.EmptyKeyClientIP)}

// fill sets options that are left out to those of others.
func (c *Common) fill(others *Common) {
	c.IPv4Prefix, c.IPv6Prefix = cmp.Or(c.IPv4Prefix, others.IPv4Prefix), cmp.Or(c.IPv6Prefix, others.IPv6Prefix)
	c.OnEmptyKey, c.DryRun = cmp.Or(c.OnEmptyKey, others.OnEmptyKey), c.DryRun || others.DryRun
}

func (c *Common) prefixes() rule.Prefixes {
	return rule.Prefixes{IPv4: *c.IPv4Prefix, IPv6: *c.IPv6Prefix}
}

// checkCommon refuses invalid values. Defaults must be set.
func (c *Common) checkCommon() error {
	switch {
	case *c.IPv4Prefix < 0 || *c.IPv4Prefix > 32:
		return fmt.Errorf("ipv4_prefix %d: use a number from 0 to 32", *c.IPv4Prefix)
	case *c.IPv6Prefix < 0 || *c.IPv6Prefix > 128:
		return fmt.Errorf("ipv6_prefix %d: use a number from 0 to 128", *c.IPv6Prefix)
	case !slices.Contains(rule.EmptyKeys(), rule.EmptyKey(c.OnEmptyKey)):
		return fmt.Errorf("on_empty_key %q: use client_ip, skip or reject", secretfile.Redact(c.OnEmptyKey))
	}
	return nil
}

// Ban says which clients a policy refuses for a while, whatever their count: those that are denied so
// many times within one window.
type Ban struct {
	// How long the first ban of a client lasts, the second, and so on; the last one goes on. From 1s to
	// 365d, in ascending order, at most 16. A client's bans are forgotten the longest duration after
	// its last one has ended. Required.
	Durations []caddy.Duration `json:"durations,omitempty"`

	// How many denials within a window are an offense that bans, from 1 to 1000. Default: 1.
	After int `json:"after,omitempty"`
}

// Challenge gives each client key a number of further quotas, the passes. A browser that has waited takes from one of
// them for an hour.
type Challenge struct {
	// How many quotas a key has beside its own, from 1 to 1000. Default: 10.
	Passes int `json:"passes,omitempty"`

	// The limit of each of them, from that of the policy. Not beside a placeholder for limit or burst. Default: that
	// of the policy.
	Limit int64 `json:"limit,omitempty"`
}

// Wait says which requests wait for others of their key to end.
type Wait struct {
	// How long a request waits at most, from 1ms to 10m. Required.
	Longest caddy.Duration `json:"longest,omitempty"`

	// How many requests of a key wait on a node at once, from 1 to 65,536. Default: 100.
	Most int `json:"most,omitempty"`

	// Text with placeholders by whose values turns go round: a value with a thousand waiting requests delays one with a
	// single request by no more than a round. If no more may wait, the value with the most loses its last. Default: turns
	// go by arrival.
	By string `json:"by,omitempty"`
}

// Reserve is a number of units, or percent of a capacity. In JSON units may be a number.
type Reserve string

// UnmarshalJSON implements [json.Unmarshaler].
func (r *Reserve) UnmarshalJSON(text []byte) error {
	var units json.Number
	if json.Unmarshal(text, &units) == nil && len(text) > 0 && text[0] != '"' {
		*r = Reserve(units)
		return nil
	}
	return json.Unmarshal(text, (*string)(r))
}

const (
	defaultPolicy = "default"
	defaultKey    = "{http.vars.client_ip}"
	defaultPasses = 10
	defaultWaits  = 100 // requests of a key on a node
)

// setDefaults sets options that were left out, by the handler too.
func (p *Policy) setDefaults(common *Common) {
	p.fill(common)
	p.Name, p.Key, p.Weight = cmp.Or(p.Name, defaultPolicy), cmp.Or(p.Key, defaultKey), cmp.Or(p.Weight, 1)
	if p.Challenge != nil {
		p.Challenge.Passes = cmp.Or(p.Challenge.Passes, defaultPasses)
	}
	if p.Wait != nil {
		p.Wait.Most = cmp.Or(p.Wait.Most, defaultWaits)
	}
	if p.Algorithm == "" && !p.countsRunning() {
		p.Algorithm = limiter.DefaultAlgorithm
		if p.Calendar != "" {
			p.Algorithm = limiter.FixedWindow
		}
	}
}

// countsRunning reports whether the policy has max_concurrent, and so no limit and no window.
func (p *Policy) countsRunning() bool { return p.MaxConcurrent != 0 || p.MaxConcurrentFrom != "" }

// limit returns the name, the placeholder and the number of the option that has the limit.
func (p *Policy) limit() (option, from string, n int64) {
	if p.countsRunning() {
		return "max_concurrent", p.MaxConcurrentFrom, p.MaxConcurrent
	}
	return "limit", p.LimitFrom, p.Limit
}

// isDynamic reports whether a limit or a burst comes from a placeholder.
func (p *Policy) isDynamic() bool { return p.LimitFrom+p.MaxConcurrentFrom+p.BurstFrom != "" }

// challenge returns the challenge; the zero value for none.
func (p *Policy) challenge() rule.Challenge {
	if p.Challenge == nil {
		return rule.Challenge{}
	}
	return rule.Challenge(*p.Challenge)
}

// estimates reports whether the weight is an estimate of the cost, which may be refunded.
func (p *Policy) estimates() bool { return rule.Estimates(p.CostFrom, p.Weight, p.WeightFrom) }

func (p *Policy) settings() limiter.Settings {
	s := limiter.Settings{
		Name: p.Name, Algorithm: p.Algorithm,
		Limit: p.Limit, Window: time.Duration(p.Window), Calendar: p.Calendar, Burst: p.Burst,
		MaxDelay: (*time.Duration)(p.MaxDelay), MaxConcurrent: p.MaxConcurrent, NodeTimeout: time.Duration(p.NodeTimeout),
		Waits:   p.Wait != nil,
		Lease:   time.Duration(p.Lease),
		Dynamic: p.isDynamic(),
		Refunds: p.CountIf != nil || p.estimates(),
	}
	s.Location, _ = p.location() // checked before
	if p.Limit == 0 && p.LimitFrom != "" {
		s.Limit = 1 // unlimited: it applies to no request
	}
	if p.MaxConcurrent == 0 && p.MaxConcurrentFrom != "" {
		s.MaxConcurrent = 1
	}
	if p.Ban != nil {
		s.BanAfter = p.Ban.After
		for _, d := range p.Ban.Durations {
			s.Ban = append(s.Ban, time.Duration(d))
		}
	}
	return s
}

// parseRule parses the options that are texts. The rule lacks the limiter's policy and the matchers.
func (p *Policy) parseRule() (rule.Rule, error) {
	option, limitFrom, _ := p.limit()
	r := rule.Rule{
		OnEmptyKey: rule.EmptyKey(p.OnEmptyKey), DryRun: p.DryRun, CountIf: p.CountIf, Challenge: p.challenge(),
		Numbers: rule.Numbers{Weight: p.Weight, Unlimited: p.Unlimited},
		Texts:   rule.Texts{Key: p.Key, LimitFrom: limitFrom, BurstFrom: p.BurstFrom, WeightFrom: p.WeightFrom, Cost: p.CostFrom, WaitBy: p.Wait.by()},
	}
	var errs [10]error // the first one counts
	r.Cost, errs[0] = rule.ParseCost(p.CostFrom, p.Cost)
	r.Reserve, errs[1] = rule.ParseReserve(string(p.Reserve))
	r.Numbers.LimitFrom, errs[2] = rule.ParsePlaceholder(option, limitFrom)
	r.Numbers.BurstFrom, errs[3] = rule.ParsePlaceholder("burst", p.BurstFrom)
	r.Numbers.WeightFrom, errs[4] = rule.ParseWeight(p.WeightFrom)
	r.Notify, errs[5] = rule.ParseMarks(p.Notify)
	r.Rollout, errs[6] = rule.ParseRollout(p.Name, p.Enforce)
	r.Key, errs[7] = rule.ParseKey(p.Key, p.prefixes())
	r.MatchBody, errs[8] = bodySources(p.Match)
	r.Wait, errs[9] = p.Wait.parse(p.prefixes())
	r.Key.Raw, r.PassUnread = p.RawKey, p.OnUnread == onUnreadPass
	return r, cmp.Or(errs[:]...)
}

// parse returns the wait of a rule; nil: requests do not wait.
func (w *Wait) parse(prefixes rule.Prefixes) (parsed rule.Wait, err error) {
	if w == nil {
		return parsed, nil
	}
	parsed = rule.Wait{Longest: time.Duration(w.Longest), Most: w.Most}
	if w.By != "" {
		parsed.By, err = rule.ParseTurns(w.By, prefixes)
	}
	return parsed, err
}

// by returns what turns go round by; empty: by arrival, or requests do not wait.
func (w *Wait) by() string {
	if w == nil {
		return ""
	}
	return w.By
}

// location returns the time zone of calendar periods, nil if there is none.
func (p *Policy) location() (*time.Location, error) {
	if p.Calendar == "" || p.TimeZone == "" {
		return nil, nil //nolint:nilnil // the limiter's default
	}
	location, err := time.LoadLocation(p.TimeZone)
	if err != nil || location == time.Local {
		return nil, fmt.Errorf("time zone %s: unknown; use a name such as Europe/Berlin or UTC, which is the same on every node",
			secretfile.Redact(p.TimeZone))
	}
	return location, nil
}

// clientHeaders are the headers in which proxies send a client's address, in their canonical form. A client can write
// them itself.
var clientHeaders = []string{"X-Forwarded-For", "X-Real-Ip", "Cf-Connecting-Ip", "True-Client-Ip", "Forwarded"}

// The placeholders that have the port of the client's connection, which differs between connections.
const (
	remoteName     = "http.request.remote"
	remotePortName = "http.request.remote.port"
)

// indexInPath finds what is probably the index of an array in a placeholder of the body.
var indexInPath = regexp.MustCompile(`json\..*\.\d+(?:\.|$)`)

// warnings returns warnings of valid options that are hardly meant, as far as they do not depend on the routes. The
// policy must be checked.
func (p *Policy) warnings() (texts []string) {
	const (
		fix      = "; write {client_ip} (in JSON {http.vars.client_ip})"
		ofClient = "policy %q: the key goes by the header %s, which clients can write, so that each request may have a quota of its own" +
			fix + ", and in the global option servers name the proxies in front in trusted_proxies"
		byAddress = "policy %q: the key goes by the request's body, and requests whose body the limit cannot read, but the application " +
			"may, count by their address; write on_empty_key reject"
		uncounted = "policy %q: the key goes by the request's body, and requests without the value are not counted; " +
			"write on_empty_key reject"
		ofArray      = "policy %q: %s has a number for a name; if it is the index of an array, no value is read there: write another key"
		ofConnection = "policy %q: the key has %s, which has the port of the connection, so that each connection has a quota of its own" + fix
	)
	for _, header := range p.parsed.Key.Headers() {
		if slices.Contains(clientHeaders, header) {
			text := fmt.Sprintf(ofClient, p.Name, header)
			if header != "X-Forwarded-For" && header != "Forwarded" { // the one that is the default, and one that Caddy cannot read
				text += ", and this header in client_ip_headers"
			}
			texts = append(texts, text)
		}
	}
	switch onEmpty := rule.EmptyKey(p.OnEmptyKey); {
	case p.parsed.Key.ReadsBody() && onEmpty == rule.EmptyKeyClientIP:
		texts = append(texts, fmt.Sprintf(byAddress, p.Name))
	case p.parsed.Key.ReadsBody() && onEmpty == rule.EmptyKeySkip:
		texts = append(texts, fmt.Sprintf(uncounted, p.Name))
	}
	for _, name := range p.parsed.Key.Placeholders() {
		if bodyplan.IsName(name) && indexInPath.MatchString(name) {
			texts = append(texts, fmt.Sprintf(ofArray, p.Name, rule.ShortNames("{"+name+"}")))
		}
		if (name == remoteName || name == remotePortName) && !p.countsRunning() {
			short := "{remote" + strings.ReplaceAll(strings.TrimPrefix(name, remoteName), ".", "_") + "}"
			return append(texts, fmt.Sprintf(ofConnection, p.Name, short))
		}
	}
	return texts
}
