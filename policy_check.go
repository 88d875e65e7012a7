package redisratelimit

import (
	"errors"
	"fmt"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

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
