package rule

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"net/http"
	"slices"
	"strconv"

	"github.com/caddyserver/caddy/v2"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/overrides"
)

// Evaluation is the result of matching a request against the rules of a handler: the checks that a store has to
// decide, and what is known without a store. The caller sets Crawler, Body, Pass, AnyMatch and OnFinding, and may give Enforced
// memory to append to.
type Evaluation struct {
	// Enforced are the checks that decide about the request.
	Enforced []limiter.Check

	// DryRun are the checks of dry-run rules.
	DryRun []limiter.Check

	// DryRefusals are the dry-run rules that would refuse the request without a decision.
	DryRefusals []DryRefusal

	// Blocked says that overrides or limits of 0 refuse the request. The results of Enforced are then the
	// results of a denial, by BlockedBy.
	Blocked bool

	// BlockedBy is [limiter.SourceOverride] where an override refuses the request, [limiter.SourceDenyCache] where a remembered
	// denial does before the body is read, and otherwise the source of a limit of 0, [limiter.SourceMemory].
	BlockedBy limiter.Source

	// BlockedEverywhere says that a block for all policies refuses the request.
	BlockedEverywhere bool

	// DryBlocks are the checks of dry-run rules whose override or limit of 0 would refuse the request, with their
	// results. [BlockSource] tells which of both.
	DryBlocks []limiter.Check

	// ExemptClient says that the option exempt leaves all rules out, Exempted that an override leaves one out.
	ExemptClient, Exempted bool

	// Pass is the pass that the client's browser sent.
	Pass Pass

	// Crawler is the name of the crawler that the request certainly comes from; empty: no crawler.
	Crawler string

	// Vars are the variables of the request. [Set.Evaluate] sets them where a rule has needed one.
	Vars map[string]any

	// Body has the values of the request's body. Nil: no body can be read, and all of its values are absent.
	Body Body

	// Input is how many tokens the request of a call to a language model has, if a rule's weight is an estimate of them.
	// [Set.Evaluate] sets it.
	Input int64

	// AnyMatch has all rules count the request, also rules whose matchers do not match, but not rules with a key from the
	// body: to read quotas, not to take from them. Of several rules with one quota the check has the weight of the first.
	AnyMatch bool

	// OnFinding is called for every rule, also for rules after one that refuses the request. Nil: the rules after a
	// refusal are not evaluated.
	OnFinding func(f Finding)
}

// Finding is the result of matching a request against one rule.
type Finding struct {
	Rule   *Rule
	Status Status

	// Key is the client's key, empty unless the rule counts, is blocked or exempted.
	Key limiter.EncodedKey

	// DryRun says that the rule is a dry run for this request.
	DryRun bool

	// Override is the override that applies to the key; nil: no override does.
	Override *overrides.Entry

	// Err says why the rule refuses the request.
	Err error

	// Refused says that an earlier rule refuses the request.
	Refused bool
}

// AsksForBody reports whether a value of the request's body had a part in the finding.
func (f *Finding) AsksForBody() bool {
	return f.Rule.usesBody() && (f.Status != NotMatched || len(f.Rule.MatchBody) > 0)
}

// Status says what a rule does with a request.
type Status int

// The statuses of a rule.
const (
	Counts     Status = iota // the rule takes units, or looks at them before the response says whether it does
	Looks                    // the rule takes no units: its count does not match, and something must be left
	NotMatched               // the rule's matchers do not match
	Skipped                  // the key is empty, and the rule is left out
	Rejected                 // the rule refuses the request: the key is empty, or its matchers fail
	Blocked                  // an override, or a limit of 0, refuses the request
	Exempted                 // an override leaves the rule out
	Unlimited                // the placeholder of the limit has the word unlimited, which leaves the rule out
)

// DryRefusal is a dry-run rule that would refuse a request: its key is empty, or its matchers fail.
type DryRefusal struct {
	Rule *Rule
	Err  error
}

// Concerns reports whether the evaluation has a check to decide, or a dry run to report.
func (e *Evaluation) Concerns() bool {
	return len(e.Enforced)+len(e.DryRun)+len(e.DryRefusals)+len(e.DryBlocks) > 0
}

// Evaluate lists the checks of a request. Rules that yield the same policy and key become one check with the sum of
// their weights. An error refuses the request; there are no checks then.
func (s *Set) Evaluate(r *http.Request, repl *caddy.Replacer, e *Evaluation) (refused error) {
	q := &request{Request: r, repl: repl}
	if len(s.Exempt)+len(s.ExemptSources)+len(e.Crawler) > 0 && s.isExempt(r, e.Crawler) {
		s.evaluateExempt(q, e)
		return nil
	}
	refused = s.evaluateRules(s.Rules[:s.bodiless], q, e, nil)
	e.Vars = q.vars
	if s.bodiless < len(s.Rules) && s.needsBody(e, refused) {
		refused = s.evaluateRules(s.Rules[s.bodiless:], q, e, refused)
	}
	if q.body != nil {
		e.Input = q.body.Input()
	}
	if e.Body != nil {
		if err := e.Body.Err(); err != nil {
			e.refuse()
			return err
		}
	}
	if e.Blocked {
		e.forgetRemaining()
	}
	return refused
}

// refuse drops the checks of a request that is refused without a decision.
func (e *Evaluation) refuse() {
	e.Enforced, e.DryRun, e.DryRefusals, e.DryBlocks, e.Blocked = nil, nil, nil, nil, false
}

// evaluateRules evaluates some of the set's rules, after others that may refuse the request.
func (s *Set) evaluateRules(rules []Rule, q *request, e *Evaluation, earlier error) (refused error) {
	refused = earlier
	for i := range rules {
		found := Finding{Rule: &rules[i]}
		check := s.evaluateRule(&found, q, e)
		found.Refused = refused != nil
		if e.OnFinding != nil {
			e.OnFinding(found)
		}
		switch {
		case found.Refused: // OnFinding alone asks for the rules after a refusal
		case found.Err != nil && found.DryRun:
			e.DryRefusals = append(e.DryRefusals, DryRefusal{found.Rule, found.Err})
		case found.Err != nil:
			refused = found.Err
			e.refuse()
			if e.OnFinding == nil {
				return refused
			}
		case found.Status == Exempted:
			e.Exempted = true
		case found.Status == Counts, found.Status == Looks, found.Status == Blocked:
			e.add(&found, check)
		}
	}
	return refused
}

// evaluateRule matches a request against the rule of a finding, which it completes. It returns the check of what the rule takes,
// which lasts until the next rule and may be without its key.
func (s *Set) evaluateRule(f *Finding, q *request, e *Evaluation) (check *limiter.Check) {
	rule := f.Rule
	if f.Key, f.Status, f.Err = s.keyOf(rule, q, e); f.Err != nil {
		f.DryRun = !rule.refusesWithoutKey(f.Err)
		return nil
	}
	f.DryRun = rule.DryRun || rule.Rollout != nil && !rule.Rollout.selects(f.Key)
	if f.Status != Counts && f.Status != Looks {
		return nil
	}
	if s.Overrides != nil && s.Overrides.Applied.Load() != nil {
		f.Override = s.overrideOf(rule, f.Key, q)
	}
	if check = &q.check; f.Override == nil && rule.isConstant {
		if rule.isPlain && e.Pass.Standing == Stranger {
			return &rule.baseCheck
		}
		*check = rule.baseCheck
		check.Key = f.Key
		rule.looking.first(check, q.Request)
	} else {
		f.Status = s.checkForRequest(rule, f, q, check)
	}
	if e.Pass.Standing != Stranger && f.Status == Counts && !f.DryRun {
		e.usePass(rule, check, f.Override != nil)
		f.Key = check.Key
	}
	return check
}

// keyOf returns the key of a rule for a request.
func (s *Set) keyOf(rule *Rule, q *request, e *Evaluation) (limiter.EncodedKey, Status, error) {
	status := Counts
	if rule.selects {
		var err error
		if status, err = s.selects(rule, q, e); status == Rejected || status == NotMatched {
			return limiter.EncodedKey{}, status, err
		}
	}
	if rule.readsBody && (status == Counts || rule.looksByBody()) {
		if e.AnyMatch && rule.keysBody {
			return limiter.EncodedKey{}, NotMatched, nil
		}
		if err := s.readBody(rule, q, e); err != nil {
			return limiter.EncodedKey{}, Rejected, err
		}
	}
	if isEarly(q.Request) && (s.exemptsAddresses() || rule.needsAddress()) {
		return limiter.EncodedKey{}, Rejected, Refuse(http.StatusTooEarly, errEarly)
	}
	key := rule.Key.key(q)
	if s.OnMissingAddress != nil && !hasPeerAddress(q.Request) {
		s.reportMissingAddress(rule, q.Request, key == limiter.EncodedKey{})
	}
	if key == (limiter.EncodedKey{}) {
		return s.emptyKey(rule, status, q)
	}
	return key, status, nil
}

// selects reports whether a rule counts a request, which has to look at least, by its matchers. The error says why the request
// is rejected. Who reads quotas is no part of those that only look.
func (s *Set) selects(rule *Rule, q *request, e *Evaluation) (Status, error) {
	if len(rule.Match) > 0 && !e.AnyMatch {
		matches, err := s.matches(rule, &rule.match, q, e.Body)
		switch {
		case err != nil:
			return Rejected, err
		case !matches:
			return NotMatched, nil
		}
	}
	if len(rule.Count) == 0 {
		return Counts, nil
	}
	counts, err := s.matches(rule, &rule.count, q, e.Body)
	switch {
	case err != nil:
		return Rejected, err
	case counts:
		return Counts, nil
	case e.AnyMatch:
		return NotMatched, nil
	}
	return Looks, nil
}

// emptyKey returns what becomes of a request for which a placeholder of the rule's key is empty. The status is what becomes of
// others.
func (s *Set) emptyKey(rule *Rule, status Status, q *request) (limiter.EncodedKey, Status, error) {
	for i := range rule.Key.parts {
		s.warnIfNeverSet(rule, "key", &rule.Key.parts[i].Placeholder)
	}
	reason := ErrEmptyKey
	part, unusable := rule.Key.unusable(q)
	if unusable != nil {
		reason = emptyKeyError(unusable)
		s.warn(rule, "key", unusable)
		if s.OnNewlyUnreadable != nil && part.wasReadable(unusable) {
			s.OnNewlyUnreadable(rule, part.Name, unusable)
		}
	}
	switch {
	case rule.OnEmptyKey == EmptyKeySkip && unusable == nil:
		return limiter.EncodedKey{}, Skipped, nil
	case rule.OnEmptyKey == EmptyKeyReject, rule.OnEmptyKey == EmptyKeySkip && !errors.Is(unusable, errSimilarName):
		return limiter.EncodedKey{}, Rejected, refuseUnusable(unusable, reason)
	case isEarly(q.Request):
		return limiter.EncodedKey{}, Rejected, Refuse(http.StatusTooEarly, errEarly)
	}
	return rule.Key.addressKey(q.Request), status, nil
}

// needsBody reports whether the rules that use the body are to be evaluated after the others: not if these refuse the
// request, or a store is known to.
func (s *Set) needsBody(e *Evaluation, refused error) bool {
	switch {
	case e.OnFinding != nil, e.AnyMatch: // all rules are asked for
		return true
	case refused != nil || e.Blocked:
		return false
	case e.Body != nil && len(e.Enforced) > 0 && e.Body.Denies(e.Enforced):
		e.Blocked, e.BlockedBy = true, limiter.SourceDenyCache
		return false
	}
	return true
}

// readBody reads the body for a rule. The error refuses the request.
func (s *Set) readBody(rule *Rule, q *request, e *Evaluation) (err error) {
	if q.body != nil || e.Body == nil {
		return nil
	}
	if q.body, err = e.Body.Values(); err != nil {
		beside := slices.DeleteFunc(rule.BodyOptions(), func(option string) bool { return option == "match" })
		s.warnNoRoom(rule, beside[0], err)
	}
	return err
}

// warnNoRoom warns if an option of a rule has no value because the body was not read for want of room.
func (s *Set) warnNoRoom(rule *Rule, option string, err error) {
	if errors.Is(err, ErrNoRoom) {
		s.warn(rule, option, err)
	}
}

// matches reports whether matchers of the rule select a request. If that depends on a value of the body that cannot be read,
// the error refuses the request, unless the rule passes such requests: match leaves them out, count has them take.
func (s *Set) matches(rule *Rule, by *selector, q *request, body Body) (bool, error) {
	if body == nil && !by.comparesPaths {
		matches, err := by.sets.AnyMatchWithError(q.Request)
		if err != nil {
			err = matchError(rule, err)
		}
		return matches, err
	}
	m := matching{request: q.Request, body: body}
	if by.comparesPaths {
		m.forms = q.pathForms()
	}
	if body != nil {
		_, _ = body.Unread() // of a number or a key, which is not the matchers'
	}
	answer, err := m.any(by.conditions)
	var failed matcherError
	switch {
	case errors.As(err, &failed):
		return false, matchError(rule, failed.err)
	case err != nil:
		s.warnNoRoom(rule, by.option, err)
		return false, err
	case answer != isUnknown:
		return answer == isTrue, nil
	}
	err = unreadError{m.unread}
	s.warn(rule, by.option, err)
	if rule.PassUnread {
		return by.unreadTakes, nil
	}
	return false, refuseUnusable(err, err)
}

func matchError(rule *Rule, err error) error {
	return fmt.Errorf("matching the requests of policy %q: %w", rule.Policy.Name(), matcherError{err})
}

// add adds the check of a rule to the checks of its kind. Where an earlier rule of the same policy has a check of the same
// quota, that check takes the sum of both weights, unless the evaluation only reads quotas.
func (e *Evaluation) add(f *Finding, check *limiter.Check) {
	checks := &e.Enforced
	switch {
	case f.DryRun && f.Status == Blocked:
		checks = &e.DryBlocks
	case f.DryRun:
		checks = &e.DryRun
	case f.Status == Blocked:
		e.Blocked = true
		if e.BlockedBy != limiter.SourceOverride {
			e.BlockedBy = BlockSource(check)
		}
	}
	for i := 0; f.Rule.repeats && i < len(*checks); i++ {
		if earlier := &(*checks)[i]; earlier.SameQuota(check) {
			if !e.AnyMatch {
				earlier.Weight, earlier.Unit = AddWeights(earlier.Weight, check.Weight), earlier.Unit.Joined(check.Unit)
			}
			return
		}
	}
	*checks = append(*checks, *check)
	(*checks)[len(*checks)-1].Key = f.Key
}

// usePass changes a check to take from the quota of the request's pass, or from what is reserved.
func (e *Evaluation) usePass(r *Rule, c *limiter.Check, overridden bool) {
	number := ""
	switch {
	case r.Opens:
		c.Reserve = e.Pass.leaves(c.Reserve)
		if e.Pass.HasPass() {
			number = strconv.Itoa(int(e.Pass.Number))
		}
	case r.Challenge.Passes > 0 && e.Pass.HasPass():
		number = strconv.Itoa(r.Challenge.Of(e.Pass))
		r.Challenge.Admit(c, number, r.Numbers.Variants, overridden)
	}
	e.Pass.Taken = cmp.Or(e.Pass.Taken, number)
}

// AddWeights returns the sum of two weights, at most the largest int64: a client may send any number as a weight.
func AddWeights(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// warnIfNeverSet calls OnNeverSet for a placeholder that was empty in all of the first requests.
func (s *Set) warnIfNeverSet(rule *Rule, option string, p *Placeholder) {
	if p.isNeverSet() && s.OnNeverSet != nil {
		s.OnNeverSet(rule, option, p.Name)
	}
}

// TurnOf returns the value that a request's turns go by; false: by arrival. Requests without a value have their turns as
// one.
func (s *Set) TurnOf(rule *Rule, r *http.Request, repl *caddy.Replacer, body Body) (value limiter.EncodedKey, byValue bool) {
	if rule.Wait.By == nil {
		return value, false
	}
	return rule.Wait.By.key(requestOf(r, repl, body)), true
}

// TurnHash returns the hash of a value that turns go by, which is the same on all nodes.
func TurnHash(value limiter.EncodedKey) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(value.String())) // it returns no error
	return h.Sum64()
}

// requestOf returns a request whose rules have been evaluated. A body that could not be read has no values.
func requestOf(r *http.Request, repl *caddy.Replacer, body Body) *request {
	q := &request{Request: r, repl: repl}
	if body != nil {
		q.body, _ = body.Values()
	}
	return q
}
