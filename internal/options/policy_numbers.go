package options

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
)

// This file has what the rows of policyOptions do with options that are numbers, texts and matchers.

const (
	defaultKey    = "{http.vars.client_ip}"
	defaultPasses = 10
	defaultWaits  = 100 // requests of a key on a node

	// onceByName is what to write instead of two blocks of one policy of which one has an option of a single block.
	onceByName = "write one block, or give them different names"
)

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

// estimates reports whether the weight is an estimate of the cost, which may be refunded.
func (p *Policy) estimates() bool { return rule.Estimates(p.CostFrom, p.Weight, p.WeightFrom) }

// countsSome reports whether only some responses count.
func (p *Policy) countsSome() bool { return p.CountIf != nil }

// hasCost reports whether responses tell what requests cost.
func (p *Policy) hasCost() bool { return p.CostFrom != "" }

// challenges reports whether denied browsers may wait.
func (p *Policy) challenges() bool { return p.Challenge != nil }

// applyKey parses the key.
func (p *Policy) applyKey(r *rule.Rule) (err error) {
	r.Texts.Key, r.Texts.IsKeyless = p.Key, p.isKeyless
	r.Key, err = rule.ParseKey(p.Key, p.prefixes())
	return err
}

// checkLimit refuses a policy that says not, or not clearly, how much it allows. The number may be that of max_concurrent.
func (p *Policy) checkLimit() error {
	switch option, from, n := p.limit(); {
	case n == 0 && !p.Unlimited:
		return fmt.Errorf("%s: missing; say how many units, from 1", option)
	case p.countsRunning() && (p.Limit != 0 || p.LimitFrom != ""): // the limiter says what is wrong
		return nil
	case p.Unlimited && from == "":
		return errors.New("unlimited: needs a placeholder for the requests that are limited, such as limit {http.vars.plan_limit} unlimited")
	case p.Unlimited && n != 0:
		return fmt.Errorf("%s %d: requests without a limit are unlimited; leave out the number or unlimited", option, n)
	}
	return nil
}

// settleLimit sets the limit. Where requests without a number are unlimited it applies to none.
func (p *Policy) settleLimit(s *limiter.Settings) {
	s.Limit, s.Dynamic = p.Limit, p.isDynamic()
	if p.Limit == 0 && p.LimitFrom != "" {
		s.Limit = 1
	}
}

// settleRunning sets the limit of running requests. Where requests without a number are unlimited it applies to none.
func (p *Policy) settleRunning(s *limiter.Settings) {
	s.MaxConcurrent = p.MaxConcurrent
	if p.MaxConcurrent == 0 && p.MaxConcurrentFrom != "" {
		s.MaxConcurrent = 1
	}
}

// applyLimit parses the placeholder of the limit, which may be that of max_concurrent.
func (p *Policy) applyLimit(r *rule.Rule) (err error) {
	option, from, _ := p.limit()
	r.Numbers.Unlimited = p.Unlimited
	r.Numbers.LimitFrom, err = rule.ParsePlaceholder(option, from)
	return err
}

func (p *Policy) tellLimit(t *telling) {
	t.policy.Limit, t.policy.LimitFrom, t.policy.Unlimited = p.Limit, p.LimitFrom, p.Unlimited
}

// fillAlgorithm sets the default, which depends on the kind of windows. Running requests have none.
func (p *Policy) fillAlgorithm() {
	if p.Algorithm == "" && !p.countsRunning() {
		p.Algorithm = limiter.DefaultAlgorithm
		if p.Calendar != "" {
			p.Algorithm = limiter.FixedWindow
		}
	}
}

// checkBurst refuses a placeholder alone.
func (p *Policy) checkBurst() error {
	if p.BurstFrom != "" && p.Burst == 0 {
		return errors.New("burst: a placeholder needs a number behind it, for when it is empty")
	}
	return nil
}

// checkWeight refuses one that no request can have.
func (p *Policy) checkWeight() error {
	if p.Weight < 0 {
		return fmt.Errorf("weight %d: use a whole number from 1", p.Weight)
	}
	return nil
}

// checkWeighed refuses a weight that never passes, and calls where no request has a body.
func (p *Policy) checkWeighed(policy *limiter.Policy) error {
	if p.Weight > policy.Capacity() && !p.Unlimited {
		return fmt.Errorf("weight %d: above the capacity of %d, so that no request could ever pass; use at most that",
			p.Weight, policy.Capacity())
	}
	return cmp.Or(p.checkCalls("match", p.Match), p.checkCalls("count", p.Count))
}

// checkCalls refuses to weigh the calls of requests that have no body, by matchers of the policy or in front of it.
func (p *Policy) checkCalls(matcher string, sets caddyhttp.RawMatcherSets) error {
	hasBody := func(set caddy.ModuleMap) bool {
		methods := valuesOf(set, "method")
		return len(methods) == 0 || slices.ContainsFunc(methods, func(m string) bool { return m != http.MethodGet && m != http.MethodHead })
	}
	if p.WeightFrom != rule.CallsOfBatch || len(sets) == 0 || slices.ContainsFunc(sets, hasBody) {
		return nil
	}
	return fmt.Errorf("weight %s: %s has no method but GET and HEAD, which have no body, so that each request weighs 1; "+
		"add POST there, or leave weight out", p.WeightFrom, matcher)
}

func (p *Policy) applyWeight(r *rule.Rule) (err error) {
	r.Numbers.Weight = p.Weight
	r.Numbers.WeightFrom, err = rule.ParseWeight(p.WeightFrom)
	return err
}

func (p *Policy) tellWeight(t *telling) {
	if t.handler.WeightFrom = p.WeightFrom; p.Weight > 1 {
		t.handler.Weight = p.Weight
	}
}

// checkReserve refuses a reserve that leaves nothing for requests of the policy.
func (p *Policy) checkReserve(policy *limiter.Policy) error {
	if p.Unlimited {
		return nil
	}
	return p.parsed.Reserve.Check(policy, p.Weight, p.isDynamic())
}

// checkMatcherSets refuses matchers of an option that no request can meet.
func checkMatcherSets(option string, sets caddyhttp.RawMatcherSets) error {
	for _, set := range sets {
		if err := checkMatchers(option, set); err != nil {
			return err
		}
	}
	return nil
}

// checkCount refuses values of count's matchers that no request has, and those of match, by which all requests count.
func (p *Policy) checkCount(*limiter.Policy) error {
	if len(p.Count) > 0 && reflect.DeepEqual(p.Count, p.Match) {
		return errors.New("count: the same matcher as match, so that all requests count; leave it out")
	}
	p.countsNone = p.lacksCounted() // while the matchers are texts
	return checkMatcherSets("count", p.Count)
}

// checkInFlight refuses a number of units that look at once which is out of bounds, or beside a weight that is taken before
// the response.
func (p *Policy) checkInFlight() error {
	switch {
	case p.InFlight == nil:
		return nil
	case *p.InFlight < 0 || *p.InFlight > rule.MostInFlight:
		return fmt.Errorf("in_flight %d: use a number from 0 to %d", *p.InFlight, rule.MostInFlight)
	case *p.InFlight > 0 && p.estimates():
		return fmt.Errorf("in_flight %d, cost: the weight is taken before the response here; leave in_flight out", *p.InFlight)
	}
	return nil
}

// checkCountIf refuses an empty response matcher, and one that no response matches.
func checkCountIf(counts *caddyhttp.ResponseMatcher) error {
	if counts == nil {
		return nil
	}
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

// isCountedStatus reports whether a number is a status, or the first digit of a class of statuses.
func isCountedStatus(status int) bool {
	return (status >= 1 && status <= 5) || (status >= 100 && status <= 599)
}
