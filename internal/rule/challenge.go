package rule

import (
	"slices"
	"strconv"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

// MaxPasses is the most passes that a client's key has.
const MaxPasses = 1000

// passMark stands in keys between a client's key and the number of a pass. No value and no template makes it.
const passMark = "%#"

// Challenge gives each key of a policy a number of quotas beside its own, for browsers that have waited. The zero
// value gives none.
type Challenge struct {
	Passes int
	Limit  int64 // of each; 0: that of the policy
}

// String returns it as it is configured.
func (c Challenge) String() string {
	text := strconv.Itoa(c.Passes)
	if c.Limit > 0 {
		text += " " + strconv.FormatInt(c.Limit, 10)
	}
	return text
}

// Pass is what a browser brings along that has waited. The zero value is none.
type Pass struct {
	Number uint16
	Valid  bool
}

// Of returns the number of a pass in a policy.
func (c Challenge) Of(p Pass) int { return int(p.Number) % c.Passes }

// KeyOf returns the key of a pass of a client's key, by its number in the policy.
func (c Challenge) KeyOf(key limiter.EncodedKey, number int) limiter.EncodedKey {
	return limiter.AsEncoded(key.String() + passMark + strconv.Itoa(number))
}

// Challenges reports whether a rule lets browsers wait.
func (s *Set) Challenges() bool {
	return slices.ContainsFunc(s.Rules, func(r Rule) bool { return r.Challenge.Passes > 0 })
}

// admit has a check take from the quota of a pass, in place of the key's own. An override holds for passes too.
func (r *Rule) admit(c *limiter.Check, p Pass, overridden bool) {
	c.Key = r.Challenge.KeyOf(c.Key, r.Challenge.Of(p))
	if r.Challenge.Limit == 0 || overridden {
		return
	}
	if policy, err := r.Numbers.Variants.with(r.Challenge.Limit, r.Policy.Settings().Burst); err == nil { // it was tried before
		c.Policy, c.Reserve = policy, r.Reserve.Of(policy)
	}
}
