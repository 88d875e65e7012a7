package redisratelimit

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/policystats"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

// Policy is a named limit. Its name is its identity: wherever a configuration uses the name, the
// limit, window, algorithm, burst and address prefixes must be the same, and the counts are shared.
type Policy struct {
	// The policy's name: 1 to 64 letters, digits, `_` and `-`. Default: `default`.
	Name string `json:"name,omitempty"`

	// Whose quota a request takes from: text with placeholders. Default: `{http.vars.client_ip}`.
	Key string `json:"key,omitempty"`

	// How many units a client may use per window, from 1. Required, unless `unlimited` is true.
	Limit int64 `json:"limit,omitempty"`

	// The length of the window, from 1ms, in whole microseconds. Required.
	Window caddy.Duration `json:"window,omitempty"`

	// How units are counted: `sliding_window_counter`, `sliding_window_log`, `fixed_window`,
	// `token_bucket`, `leaky_bucket` or `gcra`. Default: `sliding_window_counter`.
	Algorithm string `json:"algorithm,omitempty"`

	// The capacity of a bucket, from 1: how many units may come at once. Only with `token_bucket`,
	// `leaky_bucket` and `gcra`. Default: the limit.
	Burst int64 `json:"burst,omitempty"`

	// A placeholder that the limit comes from, such as `{http.vars.plan_limit}`: a number, where 0 refuses
	// the request, or the word `unlimited`, which leaves the policy out for the request. Where it is
	// empty, something else, or no possible limit, `limit` counts. Default: none.
	LimitFrom string `json:"limit_from,omitempty"`

	// Whether the policy is left out for requests without a limit in `limit_from`, instead of `limit`,
	// which is then left out too. Default: false.
	Unlimited bool `json:"unlimited,omitempty"`

	// A placeholder that the burst comes from; `burst` is what counts otherwise. Default: none.
	BurstFrom string `json:"burst_from,omitempty"`

	// A placeholder that the weight comes from; `weight` is what counts otherwise. A weight below 1
	// is 1. It belongs to this handler and not to the policy. Default: none.
	WeightFrom string `json:"weight_from,omitempty"`

	// How many units one request takes, from 1. It belongs to this handler and not to the policy,
	// so that a costly path may weigh more in the same budget. Default: 1.
	Weight int64 `json:"weight,omitempty"`

	// How long a request may be held until it is its turn, instead of being refused, so that
	// requests leave evenly at the limit's rate on all nodes together. Only with `leaky_bucket`;
	// 0 spaces them strictly. Default: none is held.
	MaxDelay *caddy.Duration `json:"max_delay,omitempty"`

	// Refuses a client for a while that is denied too often. Default: none is banned.
	Ban *Ban `json:"ban,omitempty"`

	// The policy counts only requests that one of these matcher sets matches. It belongs to this
	// handler and not to the policy. Default: all requests.
	Match caddyhttp.RawMatcherSets `json:"match,omitempty" caddy:"namespace=http.matchers"`

	// The policy counts only requests whose response this matches. A charge is made before the
	// handlers run and refunded if the response, at its first final header, does not match. A
	// client that goes away, a panic and an error of the server (500 and above) count. It belongs
	// to this handler and not to the policy. Default: all count.
	CountIf *caddyhttp.ResponseMatcher `json:"count_if,omitempty"`

	// What a request costs beyond its weight, charged after its response and into debt if need be,
	// which later requests pay: `response_bytes`, the length of the response's body as this handler
	// sees it, or a placeholder such as `{http.reverse_proxy.header.X-Tokens-Used}`. It belongs to this
	// handler and not to the policy. Default: nothing.
	ChargeFrom string `json:"charge_from,omitempty"`

	// The units that are charged where the placeholder of `charge_from` is empty or no whole number
	// from 0 to 2^52. Default: 0.
	Charge int64 `json:"charge,omitempty"`

	// What a request leaves to others, who are as much as it part of the client but matter more: it passes
	// only if so many units stay, such as `20`, or so much of the capacity, rounded up, such as `20%`.
	// Where limits come from placeholders or overrides it is at most the capacity less one. It belongs to
	// this handler and not to the policy. Default: nothing.
	Leave Leave `json:"leave,omitempty"`

	// Whether the policy only pretends: it decides, charges, counts and logs by itself, and never
	// denies nor shows in headers. Default: false.
	DryRun bool `json:"dry_run,omitempty"`

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

// Leave is a number of units, or percent of a capacity. In JSON units may be a number.
type Leave string

// UnmarshalJSON implements [json.Unmarshaler].
func (l *Leave) UnmarshalJSON(text []byte) error {
	var units json.Number
	if json.Unmarshal(text, &units) == nil && len(text) > 0 && text[0] != '"' {
		*l = Leave(units)
		return nil
	}
	return json.Unmarshal(text, (*string)(l))
}

const (
	defaultPolicy = "default"
	defaultKey    = "{http.vars.client_ip}"
)

func (p *Policy) setDefaults() {
	if p.Name == "" {
		p.Name = defaultPolicy
	}
	if p.Key == "" {
		p.Key = defaultKey
	}
	if p.Algorithm == "" {
		p.Algorithm = limiter.DefaultAlgorithm
	}
	if p.Weight == 0 {
		p.Weight = 1
	}
}

// check refuses a policy that cannot work. Defaults must be set.
func (p *Policy) check(prefixes rule.Prefixes) error {
	var err error
	switch {
	case p.Unlimited && p.LimitFrom == "":
		err = errors.New("unlimited: needs a placeholder for the requests that are limited, such as limit {http.vars.plan_limit} unlimited")
	case p.Unlimited && p.Limit != 0:
		err = fmt.Errorf("limit %d: requests without a limit are unlimited; leave out the number or unlimited", p.Limit)
	case p.Limit == 0 && !p.Unlimited:
		err = errors.New("limit: missing; say how many units per window, from 1")
	case p.Window == 0:
		err = errors.New("window: missing or zero; use a duration from 1ms such as 1m")
	case p.Weight < 0:
		err = fmt.Errorf("weight %d: use a whole number from 1", p.Weight)
	case p.Ban != nil && len(p.Ban.Durations) == 0:
		err = errors.New("ban: no duration; write one or more, such as ban 30s 5m 1h")
	case p.BurstFrom != "" && p.Burst == 0:
		err = errors.New("burst: a placeholder needs a number behind it, for when it is empty")
	default:
		err = p.checkTogether(prefixes)
	}
	if err != nil {
		return fmt.Errorf("policy %q: %w", p.Name, err)
	}
	return nil
}

// checkTogether refuses values that are right by themselves but not together.
func (p *Policy) checkTogether(prefixes rule.Prefixes) error {
	policy, err := limiter.NewPolicy(p.settings())
	if err != nil {
		return optionError(err)
	}
	if p.CountIf != nil {
		if policy.AllowRefunds() != nil {
			return errors.New("max_delay: a queue cannot refund what count_if does not count; use one of them")
		}
		if err := checkCountIf(p.CountIf); err != nil {
			return err
		}
	}
	if p.Weight > policy.Capacity() && !p.Unlimited {
		return fmt.Errorf("weight %d: above the capacity of %d, so that no request could ever pass; use at most that", p.Weight, policy.Capacity())
	}
	leave, err := rule.ParseLeave(string(p.Leave))
	if err == nil && !p.Unlimited {
		err = leave.Check(policy, p.Weight, p.LimitFrom != "" || p.BurstFrom != "")
	}
	if err != nil {
		return err
	}
	if _, err = p.numbers(); err != nil {
		return err
	}
	if _, err = rule.ParseCharge(p.ChargeFrom, p.Charge); err != nil {
		return err
	}
	if _, err = rule.ParseMarks(p.Notify); err != nil {
		return err
	}
	if err := p.checkRollout(p.DryRun); err != nil {
		return err
	}
	_, err = rule.ParseKey(p.Key, prefixes)
	return err
}

// checkRollout refuses a part of the keys that is none, or one of a dry run.
func (p *Policy) checkRollout(dryRun bool) error {
	if p.Enforce != nil && dryRun {
		return errors.New("enforce, dry_run: a dry run limits no key; leave one of them out")
	}
	_, err := rule.ParseRollout(p.Name, p.Enforce)
	return err
}

// checkCountIf refuses a response matcher that says nothing, or that no response can meet.
func checkCountIf(counts *caddyhttp.ResponseMatcher) error {
	if len(counts.StatusCode) == 0 && len(counts.Headers) == 0 {
		return errors.New("count_if: empty; use a response matcher such as status 401 403, or header X-Failed *")
	}
	for _, status := range counts.StatusCode {
		if !isCountedStatus(status) {
			return fmt.Errorf("count_if: status %d: use codes such as 401, or classes such as 4 for all 4xx", status)
		}
	}
	return nil
}

// isCountedStatus reports whether the number is a status, or the first digit of a class of them.
func isCountedStatus(status int) bool {
	return (status >= 1 && status <= 5) || (status >= 100 && status <= 599)
}

func (p *Policy) settings() limiter.Settings {
	s := limiter.Settings{
		Name: p.Name, Algorithm: p.Algorithm,
		Limit: p.Limit, Window: time.Duration(p.Window), Burst: p.Burst,
		MaxDelay: (*time.Duration)(p.MaxDelay),
		Dynamic:  p.LimitFrom != "" || p.BurstFrom != "",
	}
	if p.Unlimited {
		s.Limit = 1 // counts for nobody
	}
	if p.Ban != nil {
		s.BanAfter = p.Ban.After
		for _, d := range p.Ban.Durations {
			s.Ban = append(s.Ban, time.Duration(d))
		}
	}
	return s
}

// numbers reads the weight and the placeholders of a policy.
func (p *Policy) numbers() (rule.Numbers, error) {
	n := rule.Numbers{Weight: p.Weight, Unlimited: p.Unlimited}
	for _, source := range []struct {
		option, text string
		name         *string
	}{{"limit", p.LimitFrom, &n.LimitFrom}, {"burst", p.BurstFrom, &n.BurstFrom}, {"weight", p.WeightFrom, &n.WeightFrom}} {
		var err error
		if *source.name, err = rule.ParsePlaceholder(source.option, source.text); err != nil {
			return n, err
		}
	}
	return n, nil
}

// loadMatchers makes the policy's matchers.
func (p *Policy) loadMatchers(ctx caddy.Context) (caddyhttp.MatcherSets, error) {
	var sets caddyhttp.MatcherSets
	if len(p.Match) == 0 {
		return nil, nil
	}
	loaded, err := ctx.LoadModule(p, "Match")
	if err != nil {
		return nil, fmt.Errorf("match: %w", err)
	}
	if err := sets.FromInterface(loaded); err != nil {
		return nil, fmt.Errorf("match: %w", err)
	}
	return sets, nil
}

// identity is what must be equal wherever a policy's name is used, besides its settings.
type identity struct {
	rule.Prefixes
	limitFrom, burstFrom string
	unlimited            bool
}

func (p *Policy) identity(prefixes rule.Prefixes) identity {
	return identity{prefixes, p.LimitFrom, p.BurstFrom, p.Unlimited}
}

// registeredPolicies holds the policies of one configuration by name.
type registeredPolicies map[string]registeredPolicy

type registeredPolicy struct {
	policy   *limiter.Policy
	identity identity
	counters *policystats.Policy
	variants *rule.Variants
}

// register returns the one policy of that name. Claiming a name with other settings is an error that
// shows both.
func (r registeredPolicies) register(s limiter.Settings, id identity) (registeredPolicy, error) {
	known, found := r[s.Name]
	if !found {
		policy, err := limiter.NewPolicy(s)
		if err != nil {
			return known, fmt.Errorf("policy %q: %w", s.Name, optionError(err))
		}
		known = registeredPolicy{policy: policy, identity: id, variants: rule.NewVariants(policy)}
		r[s.Name] = known
	}
	if !known.policy.Settings().Equal(s) || known.identity != id {
		return known, fmt.Errorf("policy %q has two meanings in this configuration: (%s) and (%s); handlers that share a name share its counts, so make the settings equal or choose another name",
			s.Name, describe(known.policy.Settings(), known.identity), describe(s, id))
	}
	return known, nil
}

// counters are those of the policies that count.
func (r registeredPolicies) counters() (used []*policystats.Policy) {
	for _, p := range r {
		if p.counters != nil {
			used = append(used, p.counters)
		}
	}
	return used
}

func describe(s limiter.Settings, id identity) string {
	settings := s.String()
	if id.unlimited {
		settings = strings.Replace(settings, "limit 1,", "limit "+rule.WordUnlimited+",", 1)
	}
	text := fmt.Sprintf("%s, ipv4_prefix %d, ipv6_prefix %d", settings, id.IPv4, id.IPv6)
	if id.limitFrom != "" {
		text += ", limit from " + id.limitFrom
	}
	if id.burstFrom != "" {
		text += ", burst from " + id.burstFrom
	}
	return text
}
