package rule

import (
	"strconv"
	"strings"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// MaxPasses is the most passes that a client's key has.
const MaxPasses = 1000

// passMark separates a client's key from the number of a pass. No key of a template contains it.
const passMark = "%#"

// Challenge gives each key of a policy a number of further quotas, the passes, for browsers that have waited. The zero
// value gives none.
type Challenge struct {
	Passes int
	Limit  int64 // of each pass; 0: the policy's limit
}

// String returns the challenge as it is configured.
func (c Challenge) String() string {
	text := strconv.Itoa(c.Passes)
	if c.Limit > 0 {
		text += " " + strconv.FormatInt(c.Limit, 10)
	}
	return text
}

// Pass is the pass that a browser sends after it has waited. The zero value is no pass.
type Pass struct {
	Number   uint16
	Standing Standing

	// Taken is the pass's number in the first policy whose pass the request takes from; empty: no policy so far.
	Taken string
}

// Standing is what a request has by its browser's wait.
type Standing int

// The standings. Only a rule with [Rule.Opens] tells the last three from a stranger and from each other.
const (
	Stranger   Standing = iota // nothing: neither a quota of a pass, nor what is reserved
	Waited                     // a pass: its quotas
	Cookieless                 // for one page: half of what is reserved
	Late                       // all that is reserved
	Proven                     // a pass: its quotas, and all that is reserved
)

// HasPass reports whether the request takes from the quotas of a pass.
func (p Pass) HasPass() bool { return p.Standing == Waited || p.Standing == Proven }

// leaves returns how much of what is reserved the request must leave for others.
func (p Pass) leaves(reserved int64) int64 {
	switch p.Standing {
	case Cookieless:
		return reserved - reserved/2
	case Late, Proven:
		return 0
	}
	return reserved
}

// MayOpen reports whether another wait would open more of what is reserved.
func (p Pass) MayOpen() bool { return p.Standing < Late }

// Of returns the number of a pass in a policy.
func (c Challenge) Of(p Pass) int { return int(p.Number) % c.Passes }

// CutPass cuts the key of a pass into the client's key and the pass's number in the policy.
func CutPass(key limiter.EncodedKey) (client limiter.EncodedKey, number string, isPass bool) {
	text := key.String()
	at := strings.LastIndex(text, passMark)
	if at < 0 || (at-len(strings.TrimRight(text[:at], "%")))%2 != 0 { // an odd number of % before the mark: its % is the second one of %%
		return key, "", false
	}
	return limiter.AsEncoded(text[:at]), text[at+len(passMark):], true
}

// Admit changes a check to take from the quota of a pass instead of the key's own quota. The limit of an override
// applies to passes too.
func (c Challenge) Admit(check *limiter.Check, number string, v *Variants, overridden bool) {
	check.Key = limiter.AsEncoded(check.Key.String() + passMark + number)
	if c.Limit == 0 || overridden {
		return
	}
	if policy, err := v.withLimit(c.Limit, check.Policy.Settings.Burst); err == nil { // it was tried when the policy was checked
		check.Policy = policy
	}
}
