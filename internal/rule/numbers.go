package rule

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/caddyserver/caddy/v2"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/overrides"
)

// Numbers are a rule's weight, and the placeholders that numbers come from.
type Numbers struct {
	// Weight is the units of one request, from 1; with WeightFrom the fallback.
	Weight int64

	// WeightFrom, LimitFrom and BurstFrom are where numbers come from, that of a max_concurrent as a limit. The
	// zero value: the number is fixed.
	WeightFrom, LimitFrom, BurstFrom Placeholder

	// Unlimited says that the rule is left out where LimitFrom yields no number. The limit of the rule's
	// policy then applies to no request.
	Unlimited bool

	// Variants are the rule's policy with other limits and bursts; required with LimitFrom or
	// BurstFrom.
	Variants *Variants
}

// Variants are a policy with the limits and bursts that requests bring along. They are safe for
// concurrent use.
type Variants struct {
	base *limiter.Policy

	none  *limiter.Policy // with a limit of 0
	mu    sync.RWMutex
	known map[[2]int64]*limiter.Policy
}

// NewVariants returns the variants of a policy, none of which is made yet.
func NewVariants(base *limiter.Policy) *Variants { return &Variants{base: base, none: base.None()} }

// maxVariants bounds the variants. There are as many as plans, not as clients; where there are more,
// all are made anew.
const maxVariants = 1024

// with returns the policy with a limit and a burst.
func (v *Variants) with(limit, burst int64) (*limiter.Policy, error) {
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
		return earlier, nil // another request was faster: leases and denials are of one policy
	}
	if v.known == nil || len(v.known) >= maxVariants {
		v.known = map[[2]int64]*limiter.Policy{}
	}
	v.known[key] = p
	return p, nil
}

// takeOf fills in the check of a rule whose limit, burst or weight comes from the request or from an override, and
// returns the rule's status. The limit of an override replaces that of a placeholder.
func (s *Set) takeOf(rule *Rule, key limiter.EncodedKey, override *overrides.Entry, r *http.Request, repl *caddy.Replacer, check *limiter.Check) Status {
	policy, status := UnderOverride(override, rule.Policy)
	if override == nil {
		policy, status = s.policyOf(rule, r, repl)
	}
	switch {
	case status == Blocked && override != nil:
		*check = s.block(rule, key, override)
	case status == Blocked:
		result := limiter.Result{RetryAfter: limiter.Never, ResetAfter: limiter.Never}
		*check = limiter.Check{Policy: policy, Key: key, Weight: rule.Numbers.Weight, Result: result}
	case status == Counts:
		*check = rule.take
		check.Policy, check.Key, check.Weight, check.Reserve = policy, key, s.weightOf(rule, r, repl), rule.Reserve.Of(policy)
	}
	return status
}

// weightOf returns the units that a request takes.
func (s *Set) weightOf(rule *Rule, r *http.Request, repl *caddy.Replacer) int64 {
	if given, ok := s.number(rule, "weight", &rule.Numbers.WeightFrom, r, repl, math.MinInt64); ok {
		return max(1, given) // a weight below 1 would be a free pass
	}
	return rule.Numbers.Weight
}

// WordUnlimited is the value of a limit's placeholder that leaves the rule out.
const WordUnlimited = "unlimited"

// unlimited is the number of this word. No limit is below zero.
const unlimited = -1

// policyOf returns a rule's policy with the limit and burst that a request brings along, or what becomes
// of the rule: an unlimited request is not its concern, and one with a limit of 0 is refused.
func (s *Set) policyOf(rule *Rule, r *http.Request, repl *caddy.Replacer) (*limiter.Policy, Status) {
	n := &rule.Numbers
	if n.LimitFrom.Name == "" && n.BurstFrom.Name == "" {
		return rule.Policy, Counts
	}
	ownLimit, ownBurst := rule.Policy.Limit(), rule.Policy.Settings().Burst
	limit, burst := ownLimit, ownBurst
	if n.Unlimited {
		limit = unlimited
	}
	if given, ok := s.number(rule, rule.limitOption(), &n.LimitFrom, r, repl, 0); ok {
		limit = given
	}
	switch limit {
	case unlimited:
		return rule.Policy, Unlimited
	case 0:
		return n.Variants.none, Blocked
	}
	if given, ok := s.number(rule, "burst", &n.BurstFrom, r, repl, 1); ok {
		burst = given
	}
	if limit == ownLimit && burst == ownBurst {
		return rule.Policy, Counts
	}
	policy, err := n.Variants.with(limit, burst)
	if err != nil {
		return s.closestValid(rule, limit, burst)
	}
	return policy, Counts
}

// closestValid returns the policy with one of a limit and a burst that are not possible together: a bad
// value of one takes nothing from the other.
func (s *Set) closestValid(rule *Rule, limit, burst int64) (*limiter.Policy, Status) {
	policy, err := rule.Numbers.Variants.with(limit, rule.Policy.Settings().Burst)
	if err == nil {
		s.warn(rule, "burst", errImpossible)
		return policy, Counts
	}
	s.warn(rule, rule.limitOption(), errImpossible)
	if rule.Numbers.Unlimited {
		return rule.Policy, Unlimited
	}
	if policy, err = rule.Numbers.Variants.with(rule.Policy.Limit(), burst); err == nil {
		return policy, Counts
	}
	return rule.Policy, Counts
}

// errImpossible does not quote the value, which may come from a client.
var errImpossible = errors.New("the number is not possible with the policy's other settings")

// limitOption returns the option that the limit of a rule stands in.
func (r *Rule) limitOption() string {
	if r.Policy.CountsRunning() {
		return "max_concurrent"
	}
	return "limit"
}

// number reads a placeholder, that of a limit also as the word unlimited or as a size. It is false if the value is empty,
// no whole number or below the least.
func (s *Set) number(rule *Rule, option string, from *Placeholder, r *http.Request, repl *caddy.Replacer, least int64) (int64, bool) {
	text, err := s.valueOf(rule, option, from, r, repl)
	if text == WordUnlimited && from == &rule.Numbers.LimitFrom {
		return unlimited, true
	}
	if n, ok := rule.sizeOf(from, text); ok && err == nil && n >= least {
		return n, true
	}
	return s.parse(rule, option, from, text, err, least, math.MaxInt64)
}

// sizeOf reads a limit or a burst in bytes, such as 500MiB. It is false for any other text, and where units are no bytes.
func (r *Rule) sizeOf(from *Placeholder, text string) (int64, bool) {
	end := len(text) - 1
	if end < 0 || text[end] != 'B' && text[end] != 'b' || !r.Cost.isBytes() || from == &r.Numbers.WeightFrom {
		return 0, false
	}
	n, err := ParseSize(text)
	return n, err == nil
}

// valueOf returns the value of a placeholder, without space around it. The error is that of one that stands in
// the request several times.
func (s *Set) valueOf(rule *Rule, option string, from *Placeholder, r *http.Request, repl *caddy.Replacer) (string, error) {
	switch {
	case from.Name == "":
		return "", nil
	case from.field.repeated(r):
		return "", errRepeated
	}
	text, _ := repl.GetString(from.Name)
	text = strings.TrimSpace(text)
	if from.saw(text); text == "" {
		s.suspect(rule, option, from)
	}
	return text, nil
}

// parse reads a number from the value of a placeholder. It is false if the value is empty, no whole number, out of
// range or has an error, and warns of all but the first.
func (s *Set) parse(rule *Rule, option string, from *Placeholder, text string, err error, least, most int64) (n int64, ok bool) {
	switch {
	case err != nil:
	case text == "":
		return 0, false
	default:
		n, err = strconv.ParseInt(text, 10, 64)
		switch { // no error quotes the text, which may come from a client
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
