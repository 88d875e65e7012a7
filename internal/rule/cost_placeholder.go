package rule

import (
	"fmt"
	"net/textproto"
	"strings"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/jsonbody"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// placeholderCost is the number that a placeholder has after the response, such as one of a header field.
type placeholderCost struct{ Placeholder }

// cost is a number from 0 to 2^52, rounded up: a number below zero earns no units. The header of a response tells the cost
// completely.
func (c placeholderCost) cost(q costQuestion) (units int64, told, final bool) {
	text, err := q.set.placeholderValue(q.rule, wordCost, &c.Placeholder, &request{Request: q.response.Request, repl: q.repl})
	if text == "" && err == nil && q.response.Complete && !q.response.Failure {
		err = fmt.Errorf("{%s} is empty", c.Name)
	}
	if strings.ContainsAny(text, ".eE") {
		var ok bool
		if units, ok = jsonbody.RoundUp(text); ok {
			return units, true, q.response.Begun
		}
	}
	units, told = q.set.parseNumber(q.rule, wordCost, &c.Placeholder, text, err, 0, limiter.MaxCharge)
	return units, told, told && q.response.Begun
}

// field returns the canonical name of the header field. The name of one that reverse_proxy received stays as it is.
func (c placeholderCost) field() (name string, ok bool) {
	if name, ok = strings.CutPrefix(c.Name, "http.reverse_proxy.header."); ok {
		return name, true
	}
	name, ok = strings.CutPrefix(c.Name, "http.response.header.")
	return textproto.CanonicalMIMEHeaderKey(name), ok
}
