package gate

import (
	"net/http"

	"github.com/caddyserver/caddy/v2"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/challenge"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
)

// This file is the first step: what does a request meet?

// Meeting is what a request has to do with a limiter.
type Meeting int

// The meetings.
const (
	Nothing      Meeting = iota // no rule concerns the request
	BringsTicket                // it has waited, and asks for a pass
	AsksUsage                   // it asks for its client's quotas
	Refused                     // it yields no key, or a matcher fails
	Exempt                      // by the option or by an override
	Decided                     // rules decide about it
)

// Meet finds out what a request has to do with the limiter, and evaluates its rules. The error says why the request
// is refused.
func (l *Limiter) Meet(r *http.Request, repl *caddy.Replacer, e *rule.Evaluation) (Meeting, error) {
	switch {
	case l.challenges && challenge.BringsTicket(sent(r)):
		return BringsTicket, nil
	case l.Usage.Matches(r):
		return AsksUsage, nil
	}
	return l.evaluate(r, repl, e)
}

// evaluate evaluates the rules.
func (l *Limiter) evaluate(r *http.Request, repl *caddy.Replacer, e *rule.Evaluation) (Meeting, error) {
	if l.challenges {
		e.Pass = l.passOf(r)
	}
	if err := l.Rules.Evaluate(r, repl, e); err != nil {
		return Refused, err
	}
	switch {
	case e.Concerns():
		return Decided, nil
	case e.ExemptClient, e.Exempted:
		return Exempt, nil
	}
	return Nothing, nil
}

// Caddy's templates give these to the requests that they make of themselves, for httpInclude.
const (
	includeAddr   = "127.0.0.1:10000"
	includeHeader = "Caddy-Templates-Include"
)

// IsInclude reports whether a request is part of another one's page, and so none of a client. Those of
// clients have in their context what their server or connection is, whatever they claim.
func IsInclude(r *http.Request) bool {
	if r.RemoteAddr != includeAddr || len(r.Header[includeHeader]) == 0 {
		return false
	}
	ctx := r.Context()
	return ctx.Value(http.ServerContextKey) == nil && ctx.Value(http.LocalAddrContextKey) == nil
}
