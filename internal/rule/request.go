package rule

import (
	"net/http"

	"github.com/caddyserver/caddy/v2"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/bodyvalue"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// request is a request as rules read it.
type request struct {
	*http.Request
	repl *caddy.Replacer // of the request's placeholders
	vars map[string]any  // variables of the request; nil: no rule has needed one so far, or there are none outside of Caddy

	ofClient limiter.EncodedKey       // the last key that is the client's address alone; empty: no rule has had one
	prefixes struct{ IPv4, IPv6 int } // that ofClient was cut to

	check limiter.Check // of the rule that is evaluated

	body *bodyvalue.Values // nil: no rule has needed a value of the body so far, or no body can be read

	forms     []*http.Request // with the forms of the path, once they are made
	madeForms bool
}

// valueOfBody returns a value of the body by its number in the plan; an absent one where no body can be read.
func (q *request) valueOfBody(number int) bodyvalue.Value {
	if q.body == nil {
		return bodyvalue.Value{}
	}
	return q.body.Value(number)
}

// pathForms returns requests with the forms of the path. They are made once.
func (q *request) pathForms() []*http.Request {
	if !q.madeForms {
		q.forms, q.madeForms = formsOf(q.Request), true
	}
	return q.forms
}
