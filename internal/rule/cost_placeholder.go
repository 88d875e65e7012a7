package rule

import (
	"fmt"
	"net/textproto"
	"strings"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/bodyvalue"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// placeholderCost is the number that a placeholder has after the response, such as one of a header field.
type placeholderCost struct{ Placeholder }

// linesForCost returns what to write instead of a value of the request's body as a cost; empty for any other placeholder.
func linesForCost(from string, fallback int64) string {
	name := strings.Trim(from, "{}")
	if _, err := bodyvalue.ParseSource(name); err != nil {
		return ""
	}
	lines := fmt.Sprintf("weight %s %d", ShortNames(from), max(1, fallback))
	if path, isJSON := strings.CutPrefix(name, bodyvalue.PlaceholderPrefix+"json."); isJSON {
		line := "cost json " + path
		if fallback > 0 {
			line += fmt.Sprint(" ", fallback)
		}
		lines += ", or " + line + " for that number of the response"
	}
	return lines
}

// cost is a number from 0 to 2^52, rounded up: a number below zero earns no units. Once the header of a response is
// there, the placeholder is final.
func (c placeholderCost) cost(q costQuestion) (units int64, told, final bool) {
	text, err := q.set.placeholderValue(q.rule, wordCost, &c.Placeholder, &request{Request: q.response.Request, repl: q.repl})
	if text == "" && err == nil && q.response.Complete && !q.response.Failure {
		err = fmt.Errorf("{%s} is empty", c.Name)
	}
	if strings.ContainsAny(text, ".eE") {
		var ok bool
		if units, ok = bodyvalue.RoundUp(text); ok {
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
