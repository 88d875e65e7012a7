package rule

import (
	"net/netip"
	"slices"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/overrides"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/usagebody"
)

// Set is the rules of one handler. [NewSet] makes one.
type Set struct {
	// Rules are evaluated in this order. They must not be replaced.
	Rules []Rule

	// Exempt are the addresses of clients that no rule concerns.
	Exempt []netip.Prefix

	// Warn is called for every value of a placeholder or a response's body that cannot be used, before
	// the fallback or, for a key, the rule's OnEmptyKey takes its place. The error quotes no value. Nil: invalid values pass unnoticed.
	Warn func(r *Rule, option string, err error)

	// OnNeverSet is called once for a placeholder, by its name without braces, that was empty in each of the first
	// 100 requests that it was looked up for. Nil: these pass unnoticed.
	OnNeverSet func(r *Rule, option, placeholder string)

	// OnMissingAddress is called for every request that came over a unix socket without the client's
	// address that a rule's key needs. Nil: such requests pass unnoticed.
	OnMissingAddress func(r *Rule, remedy string)

	// Overrides are what operators have set for keys of the policies. Nil: none.
	Overrides *overrides.Live

	bodies usagebody.Plan // of the rules' costs

	places map[string]int // of the first rule by each policy's ID, where they are more than few
}

// fewRules is how many rules are searched one by one, which takes less than a map.
const fewRules = 8

// NewSet makes a set of rules.
func NewSet(rules []Rule) *Set {
	s := &Set{places: map[string]int{}}
	for _, r := range rules {
		if r.Cost.ReadsBody() {
			r.Cost.number = s.bodies.Add(r.Cost.body)
		}
		r.Index, r.repeats = len(s.Rules), s.ruleOf(r.Policy.ID()) != nil
		s.Rules = append(s.Rules, r)
		if len(s.Rules) > fewRules && !r.repeats {
			s.places[r.Policy.ID()] = r.Index
		}
	}
	return s
}

// Replace has the rules of a policy decide by another one of the same states, with its variants. No request may be
// evaluated meanwhile.
func (s *Set) Replace(v *Variants) {
	for i := range s.Rules {
		if r := &s.Rules[i]; r.Policy.ID() == v.base.ID() {
			r.Policy, r.Numbers.Variants = v.base, v
		}
	}
}

// Only returns a set of its own of the rules with a policy; empty: of all. It has no overrides.
func (s *Set) Only(policy string) *Set {
	only := NewSet(slices.DeleteFunc(slices.Clone(s.Rules), func(r Rule) bool { return policy != "" && r.Policy.Name() != policy }))
	only.Exempt = s.Exempt
	return only
}

// RuleOf returns the first rule that a check may come from: that of its policy, or of a policy that
// differs in limit or burst alone.
func (s *Set) RuleOf(check *limiter.Check) *Rule { return s.ruleOf(check.Policy.ID()) }

func (s *Set) ruleOf(id string) *Rule {
	for i := range s.Rules[:min(len(s.Rules), fewRules)] {
		if s.Rules[i].Policy.ID() == id {
			return &s.Rules[i]
		}
	}
	if i, found := s.places[id]; found {
		return &s.Rules[i]
	}
	return nil
}
