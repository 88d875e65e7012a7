package redisratelimit

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

// reservation is a charge that stays only if the response is one that counts. The unit is taken
// before the handlers run, so that a thousand log-in attempts at once cannot all slip through a
// count that is made afterwards.
type reservation struct {
	check  limiter.Check
	guard  *limiter.Guard
	source limiter.Source
	counts *caddyhttp.ResponseMatcher
}

// reserve notes the charges of a decision that depend on the response.
func (h *Handler) reserve(d *decision, checks []limiter.Check, source limiter.Source) {
	for i := range checks {
		if checks[i].Reserve && checks[i].Result.Passes() {
			counts := h.ruleOf(checks[i].Policy).countIf
			d.reserved = append(d.reserved, reservation{check: checks[i], guard: h.app.guard, source: source, counts: counts})
		}
	}
}

// ruleOf is the rule that a check was made by, with its policy or a variant of it.
func (h *Handler) ruleOf(p *limiter.Policy) *rule {
	for i := range h.rules {
		if h.rules[i].policy.ID() == p.ID() {
			return &h.rules[i]
		}
	}
	return nil
}

// respond decides, by the response that goes out, which reserved charges stay. All do where the
// client has gone: it must not get them back by leaving.
func (d *decision) respond(r *http.Request, status int, header http.Header) {
	if len(d.reserved) > 0 && (status == statusClientGone || r.Context().Err() != nil) {
		d.reserved = nil
	}
	for i := range d.reserved {
		r := &d.reserved[i]
		if r.counts.Match(status, header) {
			continue
		}
		r.guard.GiveBack([]limiter.Check{r.check}, r.source)
		d.restore(&r.check)
	}
	d.reserved = nil
}

// end decides which reserved charges stay where the handlers end without a response. What the
// client could bring about stays: leaving, or breaking what is behind the handlers.
func (d *decision) end(r *http.Request, header http.Header, err error) {
	if len(d.reserved) == 0 {
		return
	}
	status := http.StatusOK // what net/http makes of it
	if err != nil {
		status = http.StatusInternalServerError
		if coded := (caddyhttp.HandlerError{}); errors.As(err, &coded) {
			status = coded.StatusCode
		}
	}
	if status >= http.StatusInternalServerError {
		d.reserved = nil
	}
	d.respond(r, status, header)
}

// restore puts a charge that was given back to what headers show.
func (d *decision) restore(c *limiter.Check) {
	shown := []*limiter.Check{&d.binding, &d.shown}
	for i := range d.items {
		shown = append(shown, &d.items[i])
	}
	for _, s := range shown {
		if s.Policy == c.Policy && s.Key == c.Key {
			s.Result.Remaining = min(s.Policy.Capacity(), s.Result.Remaining+c.Weight)
		}
	}
}

// checkRepeated refuses a policy that stands several times in a handler, where one of them depends on
// the response: they would be charged as one.
func (h *Handler) checkRepeated() error {
	times, depends := map[string]int{}, map[string]string{}
	for _, p := range h.Policies {
		times[p.Name]++
		switch {
		case p.CountIf != nil:
			depends[p.Name] = "count_if"
		case p.ChargeFrom != "":
			depends[p.Name] = "charge"
		}
		if option := depends[p.Name]; option != "" && times[p.Name] > 1 {
			return fmt.Errorf("policy %q: stands several times in this handler, and one has %s; write one block, or give them different names", p.Name, option)
		}
	}
	return nil
}
