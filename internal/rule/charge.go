package rule

import (
	"fmt"
	"net/textproto"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

// ResponseBytes is the source of a charge that stands for the length of the response's body.
const ResponseBytes = "response_bytes"

// Charge is the source of the units that a request is charged after its response. The zero value
// charges none.
type Charge struct {
	// From is [ResponseBytes] or the name of a placeholder without braces.
	From string

	// Fallback is charged where the placeholder is empty or no whole number from 0 to 2^52.
	Fallback int64
}

// ParseCharge reads the options charge_from and charge.
func ParseCharge(from string, fallback int64) (Charge, error) {
	switch {
	case fallback < 0 || fallback > limiter.MaxCharge:
		return Charge{}, fmt.Errorf("charge %d: use a whole number from 0 to 2^52", fallback)
	case from == "" && fallback != 0:
		return Charge{}, fmt.Errorf("charge %d: say in charge_from what is charged; to charge a number known beforehand use weight", fallback)
	case from == "" || from == ResponseBytes && fallback == 0:
		return Charge{From: from}, nil
	}
	if strings.Trim(from, "{}") == ResponseBytes {
		return Charge{}, fmt.Errorf("charge %s %d: %s is always known and takes no fallback; write it without braces and number", from, fallback, ResponseBytes)
	}
	name, err := ParsePlaceholder("charge", from)
	return Charge{From: name, Fallback: fallback}, err
}

// ChargeOf returns the units that a rule charges for a response whose body has so many bytes, from 0 to
// 2^52. Units are not earned by a number below zero: the fallback takes its place.
func (s *Set) ChargeOf(rule *Rule, repl *caddy.Replacer, responseBytes int64) int64 {
	if rule.Charge.From == ResponseBytes {
		return responseBytes
	}
	n, ok := s.number(rule, "charge", rule.Charge.From, repl)
	switch {
	case !ok:
		return rule.Charge.Fallback
	case n < 0 || n > limiter.MaxCharge:
		s.warn(rule, "charge", fmt.Errorf("{%s} is below 0 or above 2^52", rule.Charge.From))
		return rule.Charge.Fallback
	}
	return n
}

// Header returns the response header that is charged. The one that reverse_proxy received keeps its
// name's form.
func (c *Charge) Header() (name string, ok bool) {
	if name, ok = strings.CutPrefix(c.From, "http.reverse_proxy.header."); ok {
		return name, true
	}
	name, ok = strings.CutPrefix(c.From, "http.response.header.")
	return textproto.CanonicalMIMEHeaderKey(name), ok
}

// ReadsResponseHeader reports whether a rule depends on more of the response than its status and size.
func (r *Rule) ReadsResponseHeader() bool {
	if r.CountIf != nil && len(r.CountIf.Headers) > 0 {
		return true
	}
	_, ok := r.Charge.Header()
	return ok
}
