package options

import (
	"cmp"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/display"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/routetrace"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
)

// policyOptions are the options of a policy, in the order in which errors name and check them.
var policyOptions = []option[Policy]{
	{
		name: "name", form: "<name>", shown: true,
		parse:  one(func(p *Policy) *string { return &p.Name }, text),
		fill:   func(p *Policy) { p.Name = cmp.Or(p.Name, DefaultPolicy) },
		settle: func(p *Policy, s *limiter.Settings) { s.Name = p.Name },
		tell:   func(p *Policy, t *telling) { t.policy.Name = p.Name },
	}, {
		name: "key", form: "<text with placeholders>", shown: true,
		advice: "write key, such as key {client_ip}", words: "by limit_by sourceCriterion client",
		parse: parseKey,
		fill:  func(p *Policy) { p.Key, p.isKeyless = cmp.Or(p.Key, defaultKey), p.isKeyless || p.Key == "" },
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
		tell:   func(p *Policy, t *telling) { t.policy.MaxDelay = (*display.DurationSeconds)(p.MaxDelay) },
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
			t.policy.NodeTimeout = display.DurationSeconds(t.rule.Policy.Settings.NodeTimeout) // with its default
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
			if r.Wait, err = p.Wait.parse(p.prefixes()); r.Wait.By != nil {
				r.Texts.Turns = p.Wait.By
			}
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
		advice: "write match, such as match path /api/*", words: "paths methods matcher",
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
		advice: "write ban, such as ban 15m",
		words:  "block block_for block_duration ban_time ban_duration bantime blacklist jail lockout penalty",
		parse:  (*optionParser).parseBan,
		check:  (*Policy).checkBan,
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
				t.policy.Lease = new(display.DurationSeconds(t.rule.Policy.LongestLease()))
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
		parse: one(func(p *Policy) **float64 { return &p.Enforce }, Percent),
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
