package options

import (
	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
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

	// Makes the windows periods of the calendar instead of ones of one length: `day`, `week`, `month` or
	// `year`. Only with `fixed_window`, which is the algorithm then. Default: none.
	Calendar string `json:"calendar,omitempty"`

	// Where the periods of `calendar` begin: of a month the day, from `1` to `31`, where 29 to 31 are the last day of a
	// shorter month; of a week its first day, such as `wednesday`; of a day the time, such as `06:00`. A time that the
	// clocks leave out is the first instant behind it, one that comes twice is its first. Default: `1`, `monday`, `00:00`.
	CalendarStart string `json:"calendar_start,omitempty"`

	// A placeholder of the day on which a client's months begin, from 1 to 31; `calendar_start` is what counts otherwise. Only
	// with `month`, and with a value that clients do not write, such as `{http.auth.user.billing_day}`. It excludes `ban` and `challenge`.
	// Default: none.
	CalendarStartFrom string `json:"calendar_start_from,omitempty"`

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
	// bounds its answers by, or `weight`, times the number of answers, and a quarter of its texts' bytes. Or `calls`: how
	// many members of a JSON array are calls of JSON-RPC or GraphQL, 1 for any other JSON and without a body, `weight` for a
	// body that cannot be read. It belongs to this handler and not to the policy. Default: none.
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
	// their own. Beside `reserve` the browsers wait that are refused what is reserved; who has waited may use all of it, and the
	// option belongs to this handler and not to the policy. It excludes `ban` and `max_delay`, and without `reserve`
	// `max_concurrent`. Default: all are refused.
	Challenge *Challenge `json:"challenge,omitempty"`

	// For keys that are asked for again and again: a node takes units ahead in one question to Redis, and
	// decides requests with them for at most so long, and at most a hundredth of the window. What is left
	// over is given back. From 5ms to 1s. Without Redis it has no effect. It excludes `count_if`, `cost`,
	// `max_delay` and `ban`. Default: none, Redis decides every request.
	Lease caddy.Duration `json:"lease,omitempty"`

	// The policy counts only requests that one of these matcher sets matches. It belongs to this
	// handler and not to the policy. Default: all requests.
	Match caddyhttp.RawMatcherSets `json:"match,omitempty" caddy:"namespace=http.matchers"`

	// Of the requests that `match` leaves, only those that one of these matcher sets matches take units. All others look: they
	// pass if a unit is left and the client is not banned, and take none. It belongs to this handler and not to the policy, and
	// excludes `max_concurrent`, `lease`, `max_delay` and `challenge`. Default: all take.
	Count caddyhttp.RawMatcherSets `json:"count,omitempty" caddy:"namespace=http.matchers"`

	// What happens to a request if `match` or `count` asks for a value of its body that cannot be read: `refuse` answers 400,
	// 413 or 415, `pass` leaves the policy out by `match`, and has the request take by `count`. Otherwise clients could choose
	// such a body to be left out. It belongs to this handler and not to the policy. Default: `refuse`.
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

	// How many units of a key may be on their way on each node before one is taken, from 0 to 65536: requests pass if a unit is
	// left, and are charged when their response counts. The limit may be exceeded by as much on each node. With 0 a unit is
	// taken before, and never more than the limit are counted. Only with `count_if`. It belongs to this handler and not to the
	// policy. Default: 256 for GET, HEAD, OPTIONS and TRACE without a credential, if the key has the client's address alone;
	// otherwise 0.
	InFlight *int64 `json:"in_flight,omitempty"`

	// What a request costs in all, known after its response: `response_bytes`, the length of the response's
	// body as this handler sees it; `backend_time`, the milliseconds, rounded up, in which the backend answered; a placeholder such as `{http.reverse_proxy.header.X-Tokens-Used}`; or `json`
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

	// The cost of a response below 400 if the placeholder of `cost_from` is empty or no number from 0 to 2^52, which is rounded
	// up, or if the body has no such number. Default: 0.
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

	isKeyless  bool      // by setDefaults: the key is left out
	parsed     rule.Rule // by check; see parseRule
	countsNone bool      // by check: no request can be one that count matches
	byAgentOf  string    // by check: the crawler by whose User-Agent match goes; empty: none
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
// them for an hour. Beside `reserve` there are none: who has waited may use what is reserved.
type Challenge struct {
	// How many quotas a key has beside its own, from 1 to 1000. Not beside `reserve`. Default: 10.
	Passes int `json:"passes,omitempty"`

	// The limit of each of them, from that of the policy. Not beside a placeholder for limit or burst, nor beside `reserve`.
	// Default: that of the policy.
	Limit int64 `json:"limit,omitempty"`

	// The file of the page on which browsers wait: HTML of at most 64 KiB with `{challenge.link}`, where the page leads to, and
	// `{challenge.stylesheet}`, a style sheet that it has to load, once each. It is read when the configuration is loaded, and
	// belongs to this handler and not to the policy. Default: a page with a sentence in English, German, Spanish or French.
	Page string `json:"page,omitempty"`
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
