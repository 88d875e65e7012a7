package redisratelimit

import (
	"net/http"
	"net/textproto"
	"strings"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

// respond does what depends on the response, and tells whether the units were given back. Errors of the
// server count.
func (r *rehearsal) respond(m *meeting, rule *rule, c *limiter.Check) (returned bool) {
	status, header := r.entry.Status, http.Header(nil)
	if rule.asksResponse() {
		header = r.entry.ResponseHeader()
		r.gaps.responseAsked, r.gaps.responseKnown = true, len(header) > 0
	}
	if c.Reserve && status != 0 && status != statusClientGone && status < http.StatusInternalServerError &&
		!rule.countIf.Match(status, header) {
		r.guard.GiveBack([]limiter.Check{*c}, limiter.SourceMemory)
		returned = true
	}
	if rule.charge.from == "" {
		return returned
	}
	if name, ok := rule.charge.header(); ok {
		m.repl.Set(rule.charge.from, strings.Join(header[name], ","))
	}
	owed := debt{check: *c, handler: m.handler, rule: rule, source: limiter.SourceMemory}
	owed.check.Weight = owed.amount(m.repl, r.entry.Size)
	r.guard.Charge([]limiter.Check{owed.check}, limiter.SourceMemory)
	return returned
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
