package rule

import (
	"errors"
	"fmt"
	"math"
	"net/http"

	"github.com/caddyserver/caddy/v2"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/overrides"
)

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

// ErrEmptyKey is wrapped by the error of a request that is refused because it yields no key.
var ErrEmptyKey = errors.New("a placeholder of the rate limit key is empty")

// Evaluation is what a request takes from whom. Enforced is appended to, so that a caller may bring
// memory along.
type Evaluation struct {
	// Enforced are the checks that decide.
	Enforced []limiter.Check

	// DryRun are the checks of dry-run rules.
	DryRun []limiter.Check

	// DryRefusals are the dry-run rules that would refuse the request without a decision.
	DryRefusals []DryRefusal

	// Blocked says that overrides or limits of 0 refuse the request. The results of Enforced are then those
	// of a denial, by BlockedBy.
	Blocked bool

	// BlockedBy is [SourceOverride] where an override refuses the request, and otherwise the source of a
	// limit of 0, [limiter.SourceMemory].
	BlockedBy limiter.Source

	// DryBlocks are the checks of dry-run rules that would refuse the request in these ways, with their
	// results; [BlockSource] says by which.
	DryBlocks []limiter.Check

	// Exempted says that an override has left a rule out.
	Exempted bool

	// Pass is what the client's browser brings along.
	Pass Pass

	// AnyMatch has all rules concern the request, whatever they match: to read quotas, not to take from them.
	// Rules with one quota keep the weight of the first.
	AnyMatch bool

	// OnFinding is called for every rule, also for those after one that refuses the request. Nil: these are
	// not evaluated.
	OnFinding func(f Finding)
}

// Finding is what a rule has to do with a request.
type Finding struct {
	// Rule is the rule.
	Rule *Rule

	// Status says what it does.
	Status Status

	// Key is the client's key, empty unless the rule counts, is blocked or exempted.
	Key limiter.EncodedKey

	// DryRun says that the rule only pretends for this request.
	DryRun bool

	// Override is what an operator has set for the key; nil for nothing.
	Override *overrides.Entry

	// Err says why the rule refuses the request.
	Err error

	// Refused says that an earlier rule refuses the request.
	Refused bool
}

// DryRefusal is a dry-run rule that would refuse a request: its key is empty, or its matchers fail.
type DryRefusal struct {
	Rule *Rule
	Err  error
}

// Concerns reports whether a rule has to do with the request.
func (e *Evaluation) Concerns() bool {
	return len(e.Enforced)+len(e.DryRun)+len(e.DryRefusals)+len(e.DryBlocks) > 0
}

// add adds a check to those of its kind.
func (e *Evaluation) add(rule *Rule, check *limiter.Check, dry bool) {
	if dry {
		e.DryRun = rule.addTo(e.DryRun, check, e.AnyMatch)
	} else {
		e.Enforced = rule.addTo(e.Enforced, check, e.AnyMatch)
	}
}

// addTo adds a check by the rule to those of the request, to an earlier one of the same quota if there
// is one. The weights are added up, unless the check only reads.
func (r *Rule) addTo(checks []limiter.Check, check *limiter.Check, reads bool) []limiter.Check {
	for i := range checks {
		if !r.repeats {
			break
		}
		if checks[i].SameQuota(check) {
			if reads {
				return checks
			}
			checks[i].Weight = AddWeights(checks[i].Weight, check.Weight)
			return checks
		}
	}
	return append(checks, *check)
}

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
