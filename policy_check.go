package redisratelimit

import (
	"errors"
	"fmt"
	"strings"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddyfileopt"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/description"
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

// settings returns what stores need to know.
func (p *Policy) settings() (s limiter.Settings) {
	for i := range policyOptions {
		if settle := policyOptions[i].settle; settle != nil {
			settle(p, &s)
		}
	}
	return s
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
func (p *Policy) Describe(r *rule.Rule) description.Policy {
	d := description.Policy{Handlers: []description.Handler{{}}}
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
	s := p.settings()
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
	return caddyfileopt.NameFields(err)
}
