// Package rule finds out which policies a request meets, whose quota each of them takes from, and
// how many units.
//
// The handler, explain and replay evaluate the same [Set], so that a request is charged by what
// they show.
package rule

import (
	"errors"
	"net/netip"
	"slices"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/overrides"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/usagebody"
)

// Rule is a policy as one handler applies it.
type Rule struct {
	// Policy decides. Where numbers come from placeholders it is the one of the fallbacks.
	Policy *limiter.Policy

	// Key yields the client's key.
	Key KeyTemplate

	// OnEmptyKey says what an empty placeholder of the key means; required.
	OnEmptyKey EmptyKey

	// Numbers are the weight, and the limit and burst where requests bring them along.
	Numbers Numbers

	// Match selects the requests that count; empty: all.
	Match caddyhttp.MatcherSets

	// DryRun says that the policy decides and counts, but never denies.
	DryRun bool

	// Rollout selects the keys that the rule is enforced for; nil: all. For the others it is a dry run.
	Rollout *Rollout

	// Notify are the fractions of the capacity at which events tell that a quota is used; none: no event.
	Notify []Fraction

	// CountIf selects the responses that count; nil: all.
	CountIf *caddyhttp.ResponseMatcher

	// Cost is what a request costs in all, known after its response. The weight is taken before.
	Cost Cost

	// Reserve is what must stay for others.
	Reserve Reserve

	// Challenge lets denied browsers wait.
	Challenge Challenge

	// Texts are the rule's options as they are configured.
	Texts Texts

	// Index is the rule's place in its set, which sets it.
	Index int

	// What [NewSet] finds out once, so that no request has to.
	repeats  bool          // an earlier rule of the set has the same policy
	constant bool          // all requests have the same limit, burst and weight
	take     limiter.Check // of requests of a constant rule, but for the key
}

// prepare finds out what all requests of the rule have in common.
func (r *Rule) prepare() {
	n := &r.Numbers
	r.constant = n.LimitFrom.Name+n.BurstFrom.Name+n.WeightFrom.Name == ""
	r.take = limiter.Check{Policy: r.Policy, Weight: n.Weight, Reserve: r.Reserve.Of(r.Policy), Refundable: r.Refunds()}
}

// Texts are options as they are configured; empty: not at all.
type Texts struct{ Key, LimitFrom, BurstFrom, Cost string }

// EmptyKey is what becomes of a request for which a placeholder of a key is empty.
type EmptyKey string

// The values of on_empty_key.
const (
	EmptyKeyClientIP EmptyKey = "client_ip" // the client's address takes the key's place
	EmptyKeySkip     EmptyKey = "skip"      // the rule is left out
	EmptyKeyReject   EmptyKey = "reject"    // the request is refused with 400
)

// EmptyKeys lists them, the default first.
func EmptyKeys() []EmptyKey { return []EmptyKey{EmptyKeyClientIP, EmptyKeySkip, EmptyKeyReject} }

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
}

// NewSet makes a set of rules.
func NewSet(rules []Rule) *Set {
	s := &Set{}
	for _, r := range rules {
		if source, ok := r.Cost.source.(bodySource); ok {
			r.Cost.source = source.planned(&s.bodies)
		}
		r.Index, r.repeats = len(s.Rules), s.RuleOf(&limiter.Check{Policy: r.Policy}) != nil
		r.prepare()
		s.Rules = append(s.Rules, r)
	}
	return s
}

// Replace has the rules of a policy decide by another one of the same states, with its variants. No request may be
// evaluated meanwhile.
func (s *Set) Replace(v *Variants) {
	for i := range s.Rules {
		if r := &s.Rules[i]; r.Policy.ID() == v.base.ID() {
			r.Policy, r.Numbers.Variants = v.base, v
			r.prepare()
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
func (s *Set) RuleOf(check *limiter.Check) *Rule {
	id := check.Policy.ID()
	for i := range s.Rules {
		if s.Rules[i].Policy.ID() == id {
			return &s.Rules[i]
		}
	}
	return nil
}

// Challenges reports whether a rule lets browsers wait.
func (s *Set) Challenges() bool {
	return slices.ContainsFunc(s.Rules, func(r Rule) bool { return r.Challenge.Passes > 0 })
}

// Enforces reports whether the rule denies requests of a key. For other keys it is a dry run.
func (r *Rule) Enforces(key limiter.EncodedKey) bool { return !r.DryRun && r.Rollout.selects(key) }

// refuses reports whether the rule refuses a request that yields no key, for a reason. While it is rolled out
// it does so only where a client could yield one: otherwise all without a key would be refused at once.
func (r *Rule) refuses(reason error) bool {
	if r.DryRun || r.Rollout == nil {
		return !r.DryRun
	}
	return r.Rollout.fraction > 0 && (errors.Is(reason, errEarly) || errors.Is(reason, errRepeated))
}

// Placeholders lists the names of the placeholders that a rule takes from a client by.
func (r *Rule) Placeholders() (names []string) {
	names = r.Key.Placeholders()
	for _, p := range []*Placeholder{&r.Numbers.LimitFrom, &r.Numbers.BurstFrom, &r.Numbers.WeightFrom} {
		if p.Name != "" {
			names = append(names, p.Name)
		}
	}
	return names
}

// RequestHeaders lists the request headers that a rule takes from a client by, in their canonical form.
func (r *Rule) RequestHeaders() (names []string) {
	fields := []field{r.Numbers.LimitFrom.field, r.Numbers.BurstFrom.field, r.Numbers.WeightFrom.field}
	for i := range r.Key.parts {
		fields = append(fields, r.Key.parts[i].field)
	}
	for _, f := range fields {
		if f.kind == headerField {
			names = append(names, f.name)
		}
	}
	return names
}
