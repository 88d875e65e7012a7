package rule

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/bodyvalue"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// numbers are the weight of a rule's requests, and the placeholders that limit, burst and weight come from.
type numbers struct {
	// Weight is how many units one request takes, from 1. With WeightFrom it is the fallback.
	Weight int64

	// WeightFrom, LimitFrom and BurstFrom are the placeholders that the numbers come from. LimitFrom is also that of
	// max_concurrent. The zero value: the number is fixed.
	WeightFrom, LimitFrom, BurstFrom Placeholder

	// DayFrom is the placeholder of the day on which a client's months begin. The rule's policy has months from the day that
	// counts if the placeholder has no value. The zero value: all clients have these.
	DayFrom Placeholder

	// Unlimited says that the rule is left out for requests without a number in LimitFrom. The limit of the rule's
	// policy then applies to no request.
	Unlimited bool

	// Variants are the rule's policy with the limits and bursts of requests; required with LimitFrom, BurstFrom or DayFrom.
	Variants *Variants
}

// Variants caches the policies that differ from a base policy in limit and burst, or in the day that months begin on, as
// placeholders of requests give them. Variants is safe for concurrent use.
type Variants struct {
	base *limiter.Policy

	none  *limiter.Policy // with a limit of 0
	mu    sync.RWMutex
	known map[[2]int64]*limiter.Policy

	months [mostDays]atomic.Pointer[Variants] // the variants whose months begin on each day; nil: no request was of that day
}

// mostDays is how many days there are that a month may begin on.
const mostDays = 31

// NewVariants returns an empty cache for a base policy.
func NewVariants(base *limiter.Policy) *Variants { return &Variants{base: base, none: base.None()} }

// Newest is a policy as the configuration that runs now has it.
type Newest struct {
	Policy    *limiter.Policy
	Variants  *Variants
	LimitFrom string // the name of the placeholder of the limit; empty: no placeholder
	Unlimited bool   // as in [numbers]
}

// maxVariants bounds the cache. A service has a few plans with a limit each, not a limit per client. A full cache is
// emptied.
const maxVariants = 1024

// withLimit returns the base policy with a limit and a burst. All callers get the same policy for the same numbers.
func (v *Variants) withLimit(limit, burst int64) (*limiter.Policy, error) {
	key := [2]int64{limit, burst}
	v.mu.RLock()
	p := v.known[key]
	v.mu.RUnlock()
	if p != nil {
		return p, nil
	}
	p, err := v.base.WithLimit(limit, burst)
	if err != nil {
		return nil, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if earlier := v.known[key]; earlier != nil {
		return earlier, nil // of a request at the same time; leases and denials are remembered by policy
	}
	if v.known == nil || len(v.known) >= maxVariants {
		v.known = map[[2]int64]*limiter.Policy{}
	}
	v.known[key] = p
	return p, nil
}

// monthsFrom returns the policies of the base whose months begin on a day from 1 to 31. All callers get the same ones for a
// day. The base counts in months.
func (v *Variants) monthsFrom(day int) (*Variants, error) {
	at := &v.months[day-1]
	if known := at.Load(); known != nil {
		return known, nil
	}
	base, err := v.base.MonthsFrom(day)
	if err != nil {
		return nil, err
	}
	at.CompareAndSwap(nil, NewVariants(base))
	return at.Load(), nil
}

// EachDay returns a policy with months from each day on.
func (v *Variants) EachDay(p *limiter.Policy) (policies []*limiter.Policy) {
	for day := range mostDays {
		if moved, err := v.moved(p, day+1); err == nil {
			policies = append(policies, moved)
		}
	}
	return policies
}

// moved returns a policy, which differs from the base in its limit alone, with months that begin on a day.
func (v *Variants) moved(p *limiter.Policy, day int) (*limiter.Policy, error) {
	months, err := v.monthsFrom(day)
	switch {
	case err != nil:
		return nil, err
	case p.ID == months.base.ID:
		return p, nil
	case p.Limit() == months.base.Limit():
		return months.base, nil
	}
	return months.withLimit(p.Limit(), 0)
}

// inMonths returns a policy of a rule with months from the request's day on, as the placeholder has it.
func (s *Set) inMonths(rule *Rule, q *request, p *limiter.Policy) *limiter.Policy {
	from := &rule.Numbers.DayFrom
	text, err := s.placeholderValue(rule, "window", from, q)
	day, ok := s.parseNumber(rule, "window", from, text, err, 1, mostDays)
	if !ok {
		return p
	}
	moved, err := rule.Numbers.Variants.moved(p, int(day))
	if err != nil {
		s.warn(rule, "window", errImpossible)
		return p
	}
	return moved
}

// checkForRequest fills in the check of a rule whose limit, burst, months or weight come from the request or from an override, or
// which some requests only look at, and returns the rule's status. The limit of an override replaces the limit of a placeholder.
func (s *Set) checkForRequest(rule *Rule, found *Finding, q *request, check *limiter.Check) Status {
	key, override := found.Key, found.Override
	policy, status := UnderOverride(override, rule.Policy)
	if override == nil {
		policy, status = s.policyForRequest(rule, q)
	}
	switch {
	case status == Blocked && override != nil:
		*check = s.block(rule, key, override)
	case status == Blocked:
		*check = rule.blocked(policy, key, limiter.Result{RetryAfter: limiter.Never, ResetAfter: limiter.Never})
	case status == Counts:
		if rule.Numbers.DayFrom.Name != "" {
			policy = s.inMonths(rule, q, policy)
		}
		*check = rule.baseCheck
		check.Policy, check.Key, check.Reserve = policy, key, rule.Reserve.of(policy)
		if found.Status == Looks {
			onlyLook(check)
			return Looks
		}
		check.Weight = s.weightForRequest(rule, q, policy)
		rule.looking.first(check, q.Request)
	}
	return status
}

// blocked returns the check of a request that is refused before a store is asked.
func (r *Rule) blocked(p *limiter.Policy, key limiter.EncodedKey, result limiter.Result) limiter.Check {
	return limiter.Check{Policy: p, Key: key, Weight: r.Numbers.Weight, Unit: r.Unit(), Result: result}
}

// weightForRequest returns how many units a request takes by a policy. The tokens of a call to a language model are cut
// to what the policy may ever let pass: a guess must not refuse a request for ever, and the cost settles the rest.
func (s *Set) weightForRequest(rule *Rule, q *request, policy *limiter.Policy) int64 {
	switch rule.Numbers.WeightFrom.field.kind {
	case tokensField:
		return max(1, min(s.tokensOf(rule, q), policy.Capacity()-rule.Reserve.of(policy)))
	case callsField:
		return s.callsOf(rule, q)
	}
	if given, ok := s.readNumber(rule, "weight", &rule.Numbers.WeightFrom, q, math.MinInt64); ok {
		return max(1, given) // with a weight below 1 a request would take nothing
	}
	return rule.Numbers.Weight
}

// tokensOf returns how many tokens a call to a language model may cost, by its body.
func (s *Set) tokensOf(rule *Rule, q *request) int64 {
	if q.body == nil {
		return rule.Numbers.Weight
	}
	tokens, unread := q.body.Tokens(rule.Numbers.Weight)
	if unread != bodyvalue.ReasonNone {
		s.warn(rule, "weight", unreadError{unread})
	}
	return tokens
}

// callsOf returns how many calls a request's body holds. They are not cut to the capacity: an application handles them all.
func (s *Set) callsOf(rule *Rule, q *request) int64 {
	if q.body == nil {
		return rule.Numbers.Weight
	}
	calls, unread := q.body.Calls(rule.Numbers.Weight)
	if unread != bodyvalue.ReasonNone {
		s.warn(rule, "weight", unreadError{unread})
	}
	return calls
}

// WordUnlimited is the value of a limit's placeholder that leaves the rule out.
const WordUnlimited = "unlimited"

// unlimited is the limit that stands for [WordUnlimited]. No limit is below zero.
const unlimited = -1

// policyForRequest returns a rule's policy with the limit and burst of a request's placeholders. The status is Unlimited
// for a request without a limit, and Blocked for a limit of 0.
func (s *Set) policyForRequest(rule *Rule, q *request) (*limiter.Policy, Status) {
	n := &rule.Numbers
	if n.LimitFrom.Name == "" && n.BurstFrom.Name == "" {
		return rule.Policy, Counts
	}
	ownLimit, ownBurst := rule.Policy.Limit(), rule.Policy.Settings.Burst
	limit, burst := ownLimit, ownBurst
	if n.Unlimited {
		limit = unlimited
	}
	if given, ok := s.readNumber(rule, rule.limitOption(), &n.LimitFrom, q, 0); ok {
		limit = given
	}
	switch limit {
	case unlimited:
		return rule.Policy, Unlimited
	case 0:
		return n.Variants.none, Blocked
	}
	if given, ok := s.readNumber(rule, "burst", &n.BurstFrom, q, 1); ok {
		burst = given
	}
	if limit == ownLimit && burst == ownBurst {
		return rule.Policy, Counts
	}
	policy, err := n.Variants.withLimit(limit, burst)
	if err != nil {
		return s.closestValid(rule, limit, burst)
	}
	return policy, Counts
}

// closestValid returns the policy for a limit and a burst that are not possible together. An invalid burst does not
// discard a valid limit, and vice versa.
func (s *Set) closestValid(rule *Rule, limit, burst int64) (*limiter.Policy, Status) {
	policy, err := rule.Numbers.Variants.withLimit(limit, rule.Policy.Settings.Burst)
	if err == nil {
		s.warn(rule, "burst", errImpossible)
		return policy, Counts
	}
	s.warn(rule, rule.limitOption(), errImpossible)
	if rule.Numbers.Unlimited {
		return rule.Policy, Unlimited
	}
	if policy, err = rule.Numbers.Variants.withLimit(rule.Policy.Limit(), burst); err == nil {
		return policy, Counts
	}
	return rule.Policy, Counts
}

// errImpossible does not quote the value, which may come from a client.
var errImpossible = errors.New("the number is not possible with the policy's other settings")

// limitOption returns the name of the option that has the rule's limit.
func (r *Rule) limitOption() string {
	if r.Policy.CountsRunning {
		return "max_concurrent"
	}
	return "limit"
}

// readNumber returns the number that a placeholder has, at least `least`; false if there is no such number. The
// placeholder of a limit may also have the word unlimited or a size.
func (s *Set) readNumber(rule *Rule, option string, from *Placeholder, q *request, least int64) (int64, bool) {
	text, err := s.placeholderValue(rule, option, from, q)
	if text == WordUnlimited && from == &rule.Numbers.LimitFrom {
		return unlimited, true
	}
	if n, ok := rule.readSize(from, text); ok && err == nil && n >= least {
		return n, true
	}
	return s.parseNumber(rule, option, from, text, err, least, math.MaxInt64)
}

// readSize reads a limit or a burst in bytes, such as 500MiB; false for any other text, and if the rule's units are not
// bytes.
func (r *Rule) readSize(from *Placeholder, text string) (int64, bool) {
	end := len(text) - 1
	if end < 0 || text[end] != 'B' && text[end] != 'b' || !r.Cost.isBytes() || from == &r.Numbers.WeightFrom {
		return 0, false
	}
	n, err := ParseSize(text)
	return n, err == nil
}

// placeholderValue returns the value of a placeholder without space around the value. The error says that the
// placeholder's header, cookie or query parameter is given several times.
func (s *Set) placeholderValue(rule *Rule, option string, from *Placeholder, q *request) (string, error) {
	switch {
	case from.Name == "":
		return "", nil
	case from.field.repeated(q.Request):
		return "", errRepeated
	}
	var text string
	if from.field.kind == bodyField {
		v := q.valueOfBody(from.field.number).Exact()
		if text = v.Text(); v.Kind() == bodyvalue.KindUnreadable {
			return "", unreadError{v.Reason()}
		}
	} else {
		text, _ = q.repl.GetString(from.Name)
		text = strings.TrimSpace(text)
	}
	if from.recordValue(q, text); text == "" {
		s.warnIfNeverSet(rule, option, from)
	}
	return text, nil
}

// parseNumber reads a number from the value of a placeholder, or from the error of reading the value; false if there is
// no number in the range. It warns unless the value is empty.
func (s *Set) parseNumber(rule *Rule, option string, from *Placeholder, text string, err error, least, most int64) (n int64, ok bool) {
	switch {
	case err != nil:
	case text == "":
		return 0, false
	default:
		n, err = strconv.ParseInt(text, 10, 64)
		switch { // the errors do not quote the text, which may come from a client
		case err != nil:
			err = fmt.Errorf("{%s} is no whole number", from.Name)
		case n < least:
			err = fmt.Errorf("{%s} is below %d", from.Name, least)
		case n > most:
			err = fmt.Errorf("{%s} is above %d", from.Name, most)
		}
	}
	if err != nil {
		s.warn(rule, option, err)
		return 0, false
	}
	return n, true
}

func (s *Set) warn(rule *Rule, option string, err error) {
	if s.Warn != nil {
		s.Warn(rule, option, err)
	}
}
