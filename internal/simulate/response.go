package simulate

import (
	"net/http"
	"strings"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

// statusClientGone is the status in a log of a client that left before its answer.
const statusClientGone = 499

// responseHeader returns the response's header in the log, nil where a rule does not read it.
func (s *Simulation) responseHeader(r *rule.Rule) http.Header {
	if !r.ReadsResponseHeader() {
		return nil
	}
	header := s.entry.ResponseHeader()
	s.missing.responseAsked, s.missing.responseKnown = true, len(header) > 0
	return header
}

// refunds reports whether the response in the log has the units of a check refunded. Errors of the server
// count.
func (s *Simulation) refunds(r *rule.Rule, c *limiter.Check, header http.Header) bool {
	status := s.entry.Status
	return c.Reserve && status != 0 && status != statusClientGone && status < http.StatusInternalServerError &&
		!r.CountIf.Match(status, header)
}

// taken is a check that passed and that depends on the response.
type taken struct {
	visit
	rule     *rule.Rule
	check    limiter.Check
	header   http.Header // of the response in the log
	refunded bool        // by that response
}

// settle refunds units and charges for the response, once it is known whether the request passes all
// policies. If one refuses it, the refusal is the response, and nothing is charged for it.
func (s *Simulation) settle() {
	for i := range s.taken {
		t := &s.taken[i]
		refunded := t.refunded
		if s.refused != 0 {
			refunded = t.check.Reserve && !t.rule.CountIf.Match(s.refused, http.Header{})
		}
		if refunded {
			s.store.Refund([]limiter.Check{t.check}, limiter.SourceMemory)
		} else if t.check.Reserve {
			s.store.Confirm([]limiter.Check{t.check}, limiter.SourceMemory)
		}
		if s.refused == 0 && t.rule.Charge.From != "" {
			s.charge(t)
		}
	}
}

// charge charges a check for its response.
func (s *Simulation) charge(t *taken) {
	if name, ok := t.rule.Charge.Header(); ok {
		t.repl.Set(t.rule.Charge.From, strings.Join(t.header[name], ","))
	}
	size := s.entry.Size
	if s.entry.Method == http.MethodHead {
		size = 0
	}
	t.check.Weight = t.limiter.Rules.ChargeOf(t.rule, t.repl, size)
	s.store.Charge([]limiter.Check{t.check}, limiter.SourceMemory)
}
