package rule

import (
	"strconv"
	"strings"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
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

	// Taken is its number in the first policy that the request takes from by it; empty: in none.
	Taken string
}

// Of returns the number of a pass in a policy.
func (c Challenge) Of(p Pass) int { return int(p.Number) % c.Passes }

// CutPass returns the client's key of that of a pass, and the pass's number in the policy.
func CutPass(key limiter.EncodedKey) (client limiter.EncodedKey, number string, isPass bool) {
	text := key.String()
	at := strings.LastIndex(text, passMark)
	if at < 0 || (at-len(strings.TrimRight(text[:at], "%")))%2 != 0 { // behind an odd number it is the end of %%
		return key, "", false
	}
	return limiter.AsEncoded(text[:at]), text[at+len(passMark):], true
}

// Admit has a check take from the quota of a pass, in place of the key's own. An override holds for passes too.
func (c Challenge) Admit(check *limiter.Check, number string, v *Variants, overridden bool) {
	check.Key = limiter.AsEncoded(check.Key.String() + passMark + number)
	if c.Limit == 0 || overridden {
		return
	}
	if policy, err := v.with(c.Limit, check.Policy.Settings().Burst); err == nil { // which was tried before
		check.Policy = policy
	}
}
