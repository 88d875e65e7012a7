package options

import (
	"errors"
	"fmt"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/display"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
)

// This file walks the rows of policyOptions.

// setDefaults sets options that were left out, by the handler too.
func (p *Policy) setDefaults(common *Common) {
	p.inherit(common)
	for i := range policyOptions {
		if fill := policyOptions[i].fill; fill != nil {
			fill(p)
		}
	}
}

// Settings returns what stores need to know.
func (p *Policy) Settings() (s limiter.Settings) {
	for i := range policyOptions {
		if settle := policyOptions[i].settle; settle != nil {
			settle(p, &s)
		}
	}
	return s
}

// Identity returns what all uses of the policy's name must have in common besides the settings.
func (p *Policy) Identity() Identity {
	_, limitFrom, _ := p.limit()
	return Identity{
		Prefixes: p.prefixes(), LimitFrom: limitFrom, BurstFrom: p.BurstFrom, DayFrom: p.CalendarStartFrom, Unlimited: p.Unlimited,
		Challenge: p.passes(),
	}
}

// parseRule parses the options that are texts. The rule lacks the limiter's policy and the matchers.
func (p *Policy) parseRule() (r rule.Rule, err error) {
	r.Describer = p
	err = firstError(policyOptions, func(o *option[Policy]) error {
		if o.apply == nil {
			return nil
		}
		return o.apply(p, &r)
	})
	return r, err
}

// Describe implements [rule.Describer].
func (p *Policy) Describe(r *rule.Rule) display.PolicyDescription {
	d := display.PolicyDescription{Handlers: []display.Handler{{}}}
	t := &telling{rule: r, policy: &d, handler: &d.Handlers[0]}
	for i := range policyOptions {
		if tell := policyOptions[i].tell; tell != nil {
			tell(p, t)
		}
	}
	t.handler.Unshown = r.ShowsIETF && !r.DryRun && r.Unit() == limiter.OtherUnits
	return d
}

// check refuses invalid options of a policy, and keeps the parsed ones. Defaults must be set.
func (p *Policy) check() error {
	err := firstError(policyOptions, func(o *option[Policy]) error {
		if o.needs != nil && o.isSet(p) && o.needs.beside(p) {
			return errors.New(o.needs.err)
		}
		return nil
	})
	if err == nil {
		err = firstError(policyOptions, func(o *option[Policy]) error {
			if o.check == nil {
				return nil
			}
			return o.check(p)
		})
	}
	if err == nil {
		err = p.checkTogether()
	}
	if err != nil {
		return fmt.Errorf("policy %q: %w", p.Name, err)
	}
	return nil
}

// checkTogether refuses options that are valid alone but not together. It parses the options that are texts.
func (p *Policy) checkTogether() error {
	s := p.Settings()
	s.Refunds = p.countsRunning() && (p.countsSome() || p.hasCost()) // the limiter's error; others have texts in the rows
	policy, err := limiter.NewPolicy(s)
	if err != nil {
		return p.nameFields(err)
	}
	if err := firstError(policyOptions, p.checkExcluded); err != nil {
		return err
	}
	if p.parsed, err = p.parseRule(); err != nil {
		return err
	}
	return firstError(policyOptions, func(o *option[Policy]) error {
		if o.together == nil {
			return nil
		}
		return o.together(p, policy)
	})
}

// checkExcluded refuses what an option that is given excludes.
func (p *Policy) checkExcluded(o *option[Policy]) error {
	if len(o.excludes) == 0 || !o.isSet(p) {
		return nil
	}
	for _, e := range o.excludes {
		if e.beside(p) {
			return errors.New(e.err)
		}
	}
	return nil
}

// nameFields returns an error of the limiter with the names of this policy's options instead of the limiter's fields.
func (p *Policy) nameFields(err error) error {
	var field *limiter.FieldError
	if errors.As(err, &field) && strings.Contains(field.Field, "Refunds") {
		option := "count_if"
		if p.CountIf == nil {
			option = "cost"
		}
		err = &limiter.FieldError{Field: strings.Replace(field.Field, "Refunds", option, 1), Value: field.Value, Problem: field.Problem}
	}
	return NameFields(err)
}

// NewRule makes the rule by which requests meet the policy, which was checked. Passwords in keys are hashed by a secret, if there is one.
func (p *Policy) NewRule(ctx caddy.Context, registered *Registered, secret string) (r rule.Rule, err error) {
	r = p.parsed
	r.Policy, r.Numbers.Variants = registered.Policy, registered.Variants
	r.Key.HashPasswords(secret)
	if r.Match, err = p.loadMatchers(ctx, "Match", p.Match); err != nil {
		return r, fmt.Errorf("match: %w", err)
	}
	if r.Count, err = p.loadMatchers(ctx, "Count", p.Count); err != nil {
		return r, fmt.Errorf("count: %w", err)
	}
	return r, nil
}

// loadMatchers makes the matchers of a field of the policy.
func (p *Policy) loadMatchers(ctx caddy.Context, field string, raw caddyhttp.RawMatcherSets) (sets caddyhttp.MatcherSets, err error) {
	if len(raw) == 0 {
		return nil, nil
	}
	loaded, err := ctx.LoadModule(p, field)
	if err == nil {
		err = sets.FromInterface(loaded)
	}
	return sets, err
}
