package redisratelimit

import (
	"cmp"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddyfileopt"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/description"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/routetrace"
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

	parsed     rule.Rule // by check; see parseRule
	countsNone bool      // by check: no request can be one that count matches
	byAgentOf  string    // by check: the crawler by whose User-Agent match goes; empty: none
}

// policyOptions are the options of a policy, in the order in which errors name and check them.
var policyOptions = []option[Policy]{
	{
		name: "name", form: "<name>", shown: true,
		parse:  one(func(p *Policy) *string { return &p.Name }, text),
		fill:   func(p *Policy) { p.Name = cmp.Or(p.Name, defaultPolicy) },
		settle: func(p *Policy, s *limiter.Settings) { s.Name = p.Name },
		tell:   func(p *Policy, t *telling) { t.policy.Name = p.Name },
	}, {
		name: "key", form: "<text with placeholders>", shown: true,
		advice: "write key, such as key {client_ip}", words: "by limit_by sourceCriterion client",
		parse: parseKey,
		fill:  func(p *Policy) { p.Key = cmp.Or(p.Key, defaultKey) },
		apply: (*Policy).applyKey,
		tell:  func(p *Policy, t *telling) { t.handler.Key = p.Key },
	}, {
		name: "limit", form: "<n> | <placeholder> <n>|unlimited", shown: true,
		advice: "write limit, such as limit 100",
		words:  "events max_events max_requests requests average requests_per_unit tokens_per_fill max",
		parse:  numberFrom(func(p *Policy) (*int64, *string) { return &p.Limit, &p.LimitFrom }),
		check:  (*Policy).checkLimit,
		settle: (*Policy).settleLimit,
		apply:  (*Policy).applyLimit,
		tell:   (*Policy).tellLimit,
	}, {
		name: "window", form: windowForm, shown: true,
		advice: "write window, such as window 1m", words: "period unit interval duration window_size windowMs fill_interval expire",
		parse:    (*optionParser).parseWindow,
		check:    (*Policy).checkWindow,
		excludes: besideDayFrom,
		isSet:    func(p *Policy) bool { return p.CalendarStartFrom != "" },
		settle:   (*Policy).settleWindow,
		apply:    (*Policy).applyDayFrom,
		tell:     (*Policy).tellWindow,
	}, {
		name: "algorithm", form: "sliding_window_counter|sliding_window_log|fixed_window|token_bucket|leaky_bucket|gcra", shown: true,
		advice: "write algorithm in front, such as algorithm token_bucket",
		words:  "sliding_window sliding_log fixed_window token_bucket leaky_bucket gcra strategy",
		parse:  one(func(p *Policy) *string { return &p.Algorithm }, text),
		fill:   (*Policy).fillAlgorithm,
		settle: func(p *Policy, s *limiter.Settings) { s.Algorithm = p.Algorithm },
		tell:   func(p *Policy, t *telling) { t.policy.Algorithm = p.Algorithm },
	}, {
		name: "burst", form: "<n> | <placeholder> <n>", shown: true,
		advice: "write burst, with algorithm token_bucket", words: "max_tokens bucket_size capacity",
		parse:  numberFrom(func(p *Policy) (*int64, *string) { return &p.Burst, &p.BurstFrom }),
		check:  (*Policy).checkBurst,
		settle: func(p *Policy, s *limiter.Settings) { s.Burst = p.Burst },
		apply: func(p *Policy, r *rule.Rule) (err error) {
			r.Numbers.BurstFrom, err = rule.ParsePlaceholder("burst", p.BurstFrom)
			return err
		},
		tell: func(p *Policy, t *telling) { t.policy.Burst, t.policy.BurstFrom = p.Burst, p.BurstFrom },
	}, {
		name: "max_delay", form: "<duration>", shown: true, holds: true,
		advice: "no request is held without max_delay, such as max_delay 2s", words: "delay nodelay",
		parse: one(func(p *Policy) **caddy.Duration { return &p.MaxDelay }, given(duration(0, "a duration from 0 such as 500ms"))),
		excludes: []exclusion[Policy]{
			{(*Policy).countsSome, "max_delay: a queue cannot refund what count_if does not count; use one of them"},
			{(*Policy).estimates, "cost, max_delay: a queue cannot refund what a weight takes too much; leave out max_delay or the weight"},
			{(*Policy).challenges, "challenge, max_delay: requests that are held are not denied; use one of them"},
		},
		isSet:  func(p *Policy) bool { return p.MaxDelay != nil },
		settle: func(p *Policy, s *limiter.Settings) { s.MaxDelay = (*time.Duration)(p.MaxDelay) },
		tell:   func(p *Policy, t *telling) { t.policy.MaxDelay = (*description.Seconds)(p.MaxDelay) },
	}, {
		name: "max_concurrent", form: "<n> | <placeholder> <n>|unlimited", shown: true,
		advice: "write max_concurrent, such as max_concurrent 20",
		words:  "concurrency limit_conn limit_conn_zone conn_cur inFlightReq amount max_conn",
		parse:  numberFrom(func(p *Policy) (*int64, *string) { return &p.MaxConcurrent, &p.MaxConcurrentFrom }),
		settle: (*Policy).settleRunning,
		tell: func(p *Policy, t *telling) {
			t.policy.MaxConcurrent, t.policy.MaxConcurrentFrom = p.MaxConcurrent, p.MaxConcurrentFrom
		},
	}, {
		name: "node_timeout", form: "<duration>", shown: true,
		parse: one(func(p *Policy) *caddy.Duration { return &p.NodeTimeout },
			duration(limiter.MinNodeTimeout, "a duration from 5s to 10m such as 15s")),
		settle: func(p *Policy, s *limiter.Settings) { s.NodeTimeout = time.Duration(p.NodeTimeout) },
		tell: func(_ *Policy, t *telling) {
			t.policy.NodeTimeout = description.Seconds(t.rule.Policy.Settings.NodeTimeout) // with its default
		},
	}, {
		name: "wait", form: "<duration> [<n>] [by <text with placeholders>]", shown: true, holds: true,
		advice: "write wait, such as wait 30s 100, beside max_concurrent",
		words:  "queue maxqueue max_queue timeout_queue queue_timeout queue_size",
		parse:  (*optionParser).parseWait,
		fill: func(p *Policy) {
			if p.Wait != nil {
				p.Wait.Most = cmp.Or(p.Wait.Most, defaultWaits)
			}
		},
		needs: &exclusion[Policy]{func(p *Policy) bool { return !p.countsRunning() },
			"wait: needs max_concurrent; requests that wait for a rate use max_delay"},
		check: func(p *Policy) error { return p.Wait.check() },
		excludes: []exclusion[Policy]{
			{func(p *Policy) bool { return p.Reserve != "" }, "wait, reserve: use one of them"},
			{func(p *Policy) bool { return p.DryRun }, "wait, dry_run: use one of them"},
		},
		isSet:  func(p *Policy) bool { return p.Wait != nil },
		settle: func(p *Policy, s *limiter.Settings) { s.Waits = p.Wait != nil },
		apply: func(p *Policy, r *rule.Rule) (err error) {
			r.Wait, err = p.Wait.parse(p.prefixes())
			return err
		},
		tell: (*Policy).tellWait,
	}, {
		name: "weight", form: "<n> | <placeholder> <n> | llm [<n>] | calls [<n>]", shown: true,
		parse:    numberFrom(func(p *Policy) (*int64, *string) { return &p.Weight, &p.WeightFrom }),
		fill:     func(p *Policy) { p.Weight = cmp.Or(p.Weight, 1) },
		check:    (*Policy).checkWeight,
		apply:    (*Policy).applyWeight,
		together: (*Policy).checkWeighed,
		tell:     (*Policy).tellWeight,
	}, {
		name: "match", form: "<matcher> | @<name>", lines: "<matcher>...",
		advice: "write match, such as match path /api/*", words: "path paths matcher",
		parse: func(p *optionParser, of *Policy) (err error) {
			of.Match, err = p.parseMatchers()
			return err
		},
		apply: func(p *Policy, r *rule.Rule) (err error) {
			r.MatchBody, err = bodySources("match", p.Match)
			return err
		},
		together: func(p *Policy, _ *limiter.Policy) error {
			p.byAgentOf = claimedIn(p.Match) // while the matchers are texts
			return checkMatcherSets("match", p.Match)
		},
		tell: func(_ *Policy, t *telling) { t.handler.Match = routetrace.MatchersText(t.rule.Match) },
	}, {
		name: "count", form: "<matcher> | @<name>", lines: "<matcher>...", once: "put both matchers into one",
		parse: (*optionParser).parseCount,
		excludes: []exclusion[Policy]{
			{(*Policy).countsRunning, "count, max_concurrent: places are taken by requests that run; choose them with match"},
			{func(p *Policy) bool { return p.Lease != 0 }, "count, lease: use one of them"},
			{func(p *Policy) bool { return p.MaxDelay != nil }, "count, max_delay: a look has no turn; use one of them"},
			{(*Policy).challenges, "count, challenge: use one of them"},
		},
		isSet: func(p *Policy) bool { return len(p.Count) > 0 },
		apply: func(p *Policy, r *rule.Rule) (err error) {
			r.CountBody, err = bodySources("count", p.Count)
			return err
		},
		together: (*Policy).checkCount,
		tell:     func(_ *Policy, t *telling) { t.handler.Count = routetrace.MatchersText(t.rule.Count) },
	}, {
		name: "on_unread", form: "refuse|pass", unusable: "match or count",
		parse:    one(func(p *Policy) *string { return &p.OnUnread }, text),
		check:    oneOf("on_unread", func(p *Policy) *string { return &p.OnUnread }, "refuse", "pass"),
		apply:    func(p *Policy, r *rule.Rule) error { r.PassUnread = p.OnUnread == "pass"; return nil },
		together: (*Policy).checkUnread,
		tell: func(p *Policy, t *telling) {
			if p.OnUnread == "pass" {
				t.handler.OnUnread = p.OnUnread
			}
		},
	}, {
		name:     "raw_key",
		parse:    bare(func(p *Policy) *bool { return &p.RawKey }),
		apply:    func(p *Policy, r *rule.Rule) error { r.Key.Raw = p.RawKey; return nil },
		together: (*Policy).checkRawKey,
		tell:     func(p *Policy, t *telling) { t.handler.RawKey = p.RawKey },
	}, {
		name: "count_if", form: "<response matcher>", lines: "<response matcher>...", once: onceByName,
		parse:    (*optionParser).parseCountIf,
		isSet:    (*Policy).countsSome,
		settle:   func(p *Policy, s *limiter.Settings) { s.Refunds = s.Refunds || p.CountIf != nil },
		apply:    func(p *Policy, r *rule.Rule) error { r.CountIf = p.CountIf; return nil },
		together: func(p *Policy, _ *limiter.Policy) error { return checkCountIf(p.CountIf) },
		tell:     func(p *Policy, t *telling) { t.handler.CountIf = countIfText(p.CountIf) },
	}, {
		name: "in_flight", form: "<n>", shown: true,
		parse: one(func(p *Policy) **int64 { return &p.InFlight }, given(inFlight)),
		needs: &exclusion[Policy]{func(p *Policy) bool { return !p.countsSome() },
			"in_flight: needs count_if; how many requests may run at once is max_concurrent"},
		check: (*Policy).checkInFlight,
		isSet: func(p *Policy) bool { return p.InFlight != nil },
		apply: func(p *Policy, r *rule.Rule) error { r.InFlight = p.InFlight; return nil },
		tell:  func(p *Policy, t *telling) { t.handler.InFlight = p.InFlight },
	}, {
		name: "cost", form: "response_bytes | backend_time | json <sum> [<n>] | llm [<n>] | <placeholder> [<n>]", once: onceByName,
		parse:  (*optionParser).parseCost,
		isSet:  (*Policy).hasCost,
		settle: func(p *Policy, s *limiter.Settings) { s.Refunds = s.Refunds || p.estimates() },
		apply: func(p *Policy, r *rule.Rule) (err error) {
			r.Texts.Cost = p.CostFrom
			r.Cost, err = rule.ParseCost(p.CostFrom, p.Cost)
			return err
		},
		tell: func(p *Policy, t *telling) { t.handler.Cost, t.handler.CostFallback = p.CostFrom, t.rule.Cost.Fallback },
	}, {
		name: "ban", form: "<duration>... [after <n>]",
		parse: (*optionParser).parseBan,
		check: (*Policy).checkBan,
		excludes: []exclusion[Policy]{
			{(*Policy).estimates, "cost, ban: a client would be banned for weights that are refunded; " +
				"leave out the weight, or give ban a policy of its own"},
			{(*Policy).challenges, "challenge, ban: a pass would leave the ban behind; give ban a policy of its own"},
		},
		isSet:  func(p *Policy) bool { return p.Ban != nil },
		settle: (*Policy).settleBan,
		tell:   (*Policy).tellBan,
	}, {
		name: "lease", form: "[<duration>]", shown: true,
		parse: (*optionParser).parseLease,
		excludes: []exclusion[Policy]{
			{(*Policy).countsSome, "lease, count_if: units that a node has leased cannot be refunded to single requests; " +
				"leave out lease, or give count_if a policy of its own"},
			{(*Policy).hasCost, "lease, cost: nodes that have leased would go on without what responses cost; " +
				"leave out lease, or give cost a policy of its own"},
		},
		isSet:  func(p *Policy) bool { return p.Lease != 0 },
		settle: func(p *Policy, s *limiter.Settings) { s.Lease = time.Duration(p.Lease) },
		tell: func(p *Policy, t *telling) {
			if p.Lease != 0 {
				t.policy.Lease = new(description.Seconds(t.rule.Policy.LongestLease()))
			}
		},
	}, {
		name: "reserve", form: "<n>|<percentage>", shown: true, once: "write one block, or two directives that each match some of the requests",
		parse: (*optionParser).parseReserve,
		isSet: func(p *Policy) bool { return p.Reserve != "" },
		apply: func(p *Policy, r *rule.Rule) (err error) {
			r.Reserve, err = rule.ParseReserve(string(p.Reserve))
			return err
		},
		together: (*Policy).checkReserve,
		tell:     func(_ *Policy, t *telling) { t.handler.Reserve = t.rule.Reserve.String() },
	}, {
		name: "enforce", form: "<percentage>", shown: true, once: onceByName,
		parse: one(func(p *Policy) **float64 { return &p.Enforce }, caddyfileopt.Percent),
		excludes: []exclusion[Policy]{
			{func(p *Policy) bool { return p.DryRun }, "enforce, dry_run: a dry run limits no key; leave one of them out"},
		},
		isSet: func(p *Policy) bool { return p.Enforce != nil },
		apply: func(p *Policy, r *rule.Rule) (err error) {
			r.Rollout, err = rule.ParseRollout(p.Name, p.Enforce)
			return err
		},
		tell: func(_ *Policy, t *telling) {
			if r := t.rule.Rollout; r != nil {
				t.handler.Enforce = new(r.Fraction().Percent())
			}
		},
	}, {
		name: "notify", form: "<percentage>...", once: onceByName,
		parse: (*optionParser).parseNotify,
		isSet: func(p *Policy) bool { return len(p.Notify) > 0 },
		apply: func(p *Policy, r *rule.Rule) (err error) {
			r.Notify, err = rule.ParseMarks(p.Notify)
			return err
		},
		tell: func(_ *Policy, t *telling) {
			for _, mark := range t.rule.Notify {
				t.handler.Notify = append(t.handler.Notify, mark.Percent())
			}
		},
	}, {
		name: "challenge", form: "[<passes>] | <passes> <limit>", lines: "page <file>", once: onceByName,
		parse: (*optionParser).parseChallenge,
		fill:  (*Policy).fillChallenge,
		excludes: []exclusion[Policy]{
			{
				func(p *Policy) bool { return p.countsRunning() && p.hasPasses() },
				"challenge, max_concurrent: what runs ends without a wait; write reserve beside both, for those that have waited, or give " +
					"max_concurrent a policy of its own",
			},
		},
		isSet: (*Policy).challenges,
		apply: func(p *Policy, r *rule.Rule) error {
			r.Challenge, r.Opens = p.passes(), p.opens()
			return nil
		},
		together: (*Policy).checkChallenge,
		tell:     (*Policy).tellChallenge,
	},
	{
		name: "dry_run", common: true, advice: "write dry_run", words: "limit_req_dry_run shadow_mode shadow report_only",
		parse: bare(func(p *Policy) *bool { return &p.DryRun }),
		apply: func(p *Policy, r *rule.Rule) error { r.DryRun = p.DryRun; return nil },
		tell:  func(p *Policy, t *telling) { t.handler.DryRun = p.DryRun },
	}, {
		name: "ipv4_prefix", form: "<0-32>", common: true, shown: true,
		parse: one(func(p *Policy) **int { return &p.IPv4Prefix }, given(number(0, maxIPv4Prefix))),
		check: func(p *Policy) error { return checkPrefix("ipv4_prefix", *p.IPv4Prefix, maxIPv4Prefix) },
		tell:  func(p *Policy, t *telling) { t.policy.IPv4Prefix = unless(p.IPv4Prefix, commonDefaults.IPv4Prefix) },
	}, {
		name: "ipv6_prefix", form: "<0-128>", common: true, shown: true,
		parse: one(func(p *Policy) **int { return &p.IPv6Prefix }, given(number(0, maxIPv6Prefix))),
		check: func(p *Policy) error { return checkPrefix("ipv6_prefix", *p.IPv6Prefix, maxIPv6Prefix) },
		tell:  func(p *Policy, t *telling) { t.policy.IPv6Prefix = unless(p.IPv6Prefix, commonDefaults.IPv6Prefix) },
	}, {
		name: "on_empty_key", form: "client_ip|skip|reject", common: true, shown: true, unusable: "a key",
		parse: one(func(p *Policy) *string { return &p.OnEmptyKey }, text),
		check: oneOf("on_empty_key", func(p *Policy) *string { return &p.OnEmptyKey }, rule.EmptyKeys()...),
		apply: func(p *Policy, r *rule.Rule) error { r.OnEmptyKey = rule.EmptyKey(p.OnEmptyKey); return nil },
		tell: func(p *Policy, t *telling) {
			if p.OnEmptyKey != string(rule.EmptyKeyClientIP) {
				t.handler.OnEmptyKey = p.OnEmptyKey
			}
		},
	},
}
