// Package rule finds out which policies a request meets, whose quota each of them takes from, and
// how many units.
//
// The handler, explain and replay evaluate the same [Set], so that a request is charged by what
// they show.
package rule

import (
	"errors"
	"fmt"
	"math"
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/overrides"
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

	repeats bool // an earlier rule of the set has the same policy
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

// ErrEmptyKey is wrapped by the error of a request that is refused because it yields no key.
var ErrEmptyKey = errors.New("a placeholder of the rate limit key is empty")

// Status is what a rule has to do with a request.
type Status int

// The statuses of a rule.
const (
	Counts     Status = iota // the rule takes units
	NotMatched               // the rule does not select the request
	Skipped                  // the key is empty, and the rule is left out
	Rejected                 // the rule refuses the request: the key is empty, or its matchers fail
	Blocked                  // an override, or a limit of 0, refuses the request
	Exempted                 // an override leaves the rule out
	Unlimited                // the request's limit leaves the rule out
)

// Evaluate lists the checks of a request. Rules that yield the same policy and key take the sum of
// their weights at once. An error refuses the request; there are no checks then.
func (s *Set) Evaluate(r *http.Request, repl *caddy.Replacer, e *Evaluation) (refused error) {
	for i := range s.Rules {
		rule := &s.Rules[i]
		key, status, err := s.keyOf(rule, r, repl, e.AnyMatch)
		var override *overrides.Entry
		var check limiter.Check
		if status == Counts {
			override = s.overrideOf(rule, key, r, repl)
			status = s.check(rule, key, override, r, repl, &check)
		}
		dry := !rule.Enforces(key)
		if err != nil {
			dry = !rule.refuses(err)
		}
		if e.Pass.Valid && status == Counts && !dry && rule.Challenge.Passes > 0 {
			e.admit(rule, &check, override != nil)
			key = check.Key
		}
		if e.OnFinding != nil {
			e.OnFinding(Finding{Rule: rule, Status: status, Key: key, DryRun: dry, Override: override, Err: err, Refused: refused != nil})
		}
		switch {
		case refused != nil:
		case err != nil && dry:
			e.DryRefusals = append(e.DryRefusals, DryRefusal{rule, err})
		case err != nil:
			e.Enforced, e.DryRun, e.DryRefusals, e.DryBlocks, e.Blocked, refused = nil, nil, nil, nil, false, err
			if e.OnFinding == nil {
				return refused
			}
		case status == Blocked:
			e.addBlock(rule, &check, dry)
		case status == Exempted:
			e.Exempted = true
		case status == Counts:
			e.add(rule, &check, dry)
		}
	}
	if e.Blocked {
		e.forgetRemaining()
	}
	return refused
}

// check fills in what a rule takes from a key, and returns its status. The limit of an override takes the
// place of a placeholder's.
func (s *Set) check(rule *Rule, key limiter.EncodedKey, override *overrides.Entry, r *http.Request, repl *caddy.Replacer, c *limiter.Check) (status Status) {
	policy := rule.Policy
	if override == nil {
		policy, status = s.policyOf(rule, r, repl)
	} else {
		policy, status = UnderOverride(override, policy)
	}
	switch {
	case status == Blocked && override != nil:
		*c = s.block(rule, key, override)
	case status == Blocked:
		result := limiter.Result{RetryAfter: limiter.Never, ResetAfter: limiter.Never}
		*c = limiter.Check{Policy: policy, Key: key, Weight: rule.Numbers.Weight, Result: result}
	case status == Counts:
		c.Policy, c.Key, c.Weight, c.Reserve, c.Refundable = policy, key, s.weightOf(rule, r, repl), rule.Reserve.Of(policy), rule.Refunds()
	}
	return status
}

// keyOf returns the key of a rule for a request, whatever the rule matches if so asked.
func (s *Set) keyOf(rule *Rule, r *http.Request, repl *caddy.Replacer, anyMatch bool) (key limiter.EncodedKey, status Status, err error) {
	if !anyMatch {
		selected, err := rule.selects(r)
		switch {
		case err != nil:
			return key, Rejected, err
		case !selected:
			return key, NotMatched, nil
		}
	}
	if isEarly(r) && (len(s.Exempt) > 0 || rule.Key.needsAddress()) {
		return key, Rejected, Refuse(http.StatusTooEarly, errEarly)
	}
	key = rule.Key.Key(r, repl)
	if s.OnMissingAddress != nil && !hasPeerAddress(r) {
		s.reportMissingAddress(rule, r, key == limiter.EncodedKey{})
	}
	if key != (limiter.EncodedKey{}) {
		return key, Counts, nil
	}
	for i := range rule.Key.parts {
		s.suspect(rule, "key", &rule.Key.parts[i].Placeholder)
	}
	reason, repeated := ErrEmptyKey, rule.Key.repeats(r)
	if repeated {
		reason = errRepeatedKey
		s.warn(rule, "key", errRepeated)
	}
	switch {
	case rule.OnEmptyKey == EmptyKeySkip && !repeated:
		return key, Skipped, nil
	case rule.OnEmptyKey != EmptyKeyClientIP:
		return key, Rejected, Refuse(http.StatusBadRequest, reason)
	case isEarly(r):
		return key, Rejected, Refuse(http.StatusTooEarly, errEarly)
	}
	return rule.Key.AddressKey(r), Counts, nil
}

// selects reports whether the rule concerns a request.
func (r *Rule) selects(request *http.Request) (bool, error) {
	if len(r.Match) == 0 {
		return true, nil
	}
	matches, err := r.Match.AnyMatchWithError(request)
	if err != nil {
		return false, fmt.Errorf("matching the requests of policy %q: %w", r.Policy.Name(), err)
	}
	return matches, nil
}

// AddWeights returns the sum of two weights, or the largest int64: clients may name any number.
func AddWeights(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
