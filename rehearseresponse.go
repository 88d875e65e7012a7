package redisratelimit

import (
	"net/http"
	"net/textproto"
	"strings"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

// responseHeader is what the log tells of the response's header, nil where a rule does not ask for it.
func (r *simulation) responseHeader(rule *rule) http.Header {
	if !rule.asksResponse() {
		return nil
	}
	header := r.entry.ResponseHeader()
	r.missing.responseAsked, r.missing.responseKnown = true, len(header) > 0
	return header
}

// returns tells whether the response has the units of a check given back. Errors of the server count.
func (r *simulation) returns(rule *rule, c *limiter.Check, header http.Header) bool {
	status := r.entry.Status
	return c.Reserve && status != 0 && status != statusClientGone && status < http.StatusInternalServerError &&
		!rule.countIf.Match(status, header)
}

// taken is a check that passed, and that depends on the response.
type taken struct {
	visit
	rule     *rule
	check    limiter.Check
	header   http.Header // of the response in the log
	returned bool        // that response has its units given back
}

// settle gives units back and charges for the response, once it is known whether the request passes all
// policies. If one refuses it, the refusal is the response, and nothing is charged for it.
func (r *simulation) settle() {
	for i := range r.taken {
		t := &r.taken[i]
		returned := t.returned
		if r.refused != 0 {
			returned = t.check.Reserve && !t.rule.countIf.Match(r.refused, http.Header{})
		}
		if returned {
			r.guard.Refund([]limiter.Check{t.check}, limiter.SourceMemory)
		}
		if r.refused == 0 && t.rule.charge.from != "" {
			r.charge(t)
		}
	}
}

// charge charges a check that passed for its response.
func (r *simulation) charge(t *taken) {
	if name, ok := t.rule.charge.header(); ok {
		t.repl.Set(t.rule.charge.from, strings.Join(t.header[name], ","))
	}
	size := r.entry.Size
	if r.entry.Method == http.MethodHead {
		size = 0
	}
	owed := deferredCharge{check: t.check, handler: t.handler, rule: t.rule, source: limiter.SourceMemory}
	owed.check.Weight = owed.amount(t.repl, size)
	r.guard.Charge([]limiter.Check{owed.check}, limiter.SourceMemory)
}

// asksResponse tells whether a rule depends on more of the response than its status and size.
func (rule *rule) asksResponse() bool {
	if rule.countIf != nil && len(rule.countIf.Headers) > 0 {
		return true
	}
	_, ok := rule.charge.header()
	return ok
}

// header is the field of the response that is charged. The one that reverse_proxy has received stands
// under its name as it is.
func (c *charge) header() (name string, ok bool) {
	if name, ok = strings.CutPrefix(c.from, "http.reverse_proxy.header."); ok {
		return name, true
	}
	name, ok = strings.CutPrefix(c.from, "http.response.header.")
	return textproto.CanonicalMIMEHeaderKey(name), ok
}
