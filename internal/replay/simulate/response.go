package simulate

import (
	"net/http"
	"strings"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/gate"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
)

// taken is a check that passed and that depends on the response.
type taken struct {
	visit
	passed   gate.PendingCheck
	response rule.Response // in the log
	decision int           // its index among those of the policies
}

// response returns what the log tells of a response to a rule. It has no bodies, and does not tell errors from
// responses: the client left or the backend broke if the status says so, and all count.
func (s *Simulation) response(v *visit, r *rule.Rule) rule.Response {
	e := s.entry
	broke := gate.BrokeOff(e.Status)
	response := rule.Response{Request: v.request, Begun: !broke || e.Size > 0, Complete: !broke, Ended: true, Bytes: e.Size}
	if r.ReadsResponseHeader() {
		response.Header = s.responseHeader()
	}
	if r.NeedsResponseHeader() {
		s.missing.responseAsked, s.missing.responseKnown = true, len(response.Header) > 0
	}
	if !broke {
		response.Status, response.Failure = e.Status, e.Status >= http.StatusBadRequest
	}
	if e.Method == http.MethodHead {
		response.Bytes = 0
	}
	if r.Cost.TimesBackend() { // of which the log tells no more than how long the whole request took
		response.BackendTime = time.Duration(max(0, e.Ends-e.Time)) * time.Microsecond
	}
	return response
}

// settle makes what checks took what the request costs, once it is known whether it passes all policies: when its
// response ends, as a log does not tell when its header came. If a policy refuses the request, the refusal is the
// response; no backend gets it then, nor a question for quotas.
func (s *Simulation) settle() {
	for i := range s.taken {
		t := &s.taken[i]
		if s.refused != 0 {
			t.response.Status, t.response.Header = s.refused, http.Header{}
		}
		if s.refused != 0 || s.answered {
			t.response.Origin = rule.FromNoBackend
		}
		if name, ok := t.passed.Rule.Cost.Header(); ok {
			t.repl.Set(t.passed.Rule.Cost.From, strings.Join(t.response.Header[name], ","))
			t.response.Begun = t.response.Begun || len(t.response.Header[name]) > 0
		}
		settled, _ := t.limiter.Settle(&t.passed, &t.response)
		check, source := t.passed.Check, t.passed.Source
		if !settled.Told {
			s.missing.costs[s.indices[check.Policy.Name()]]++
		}
		d := &s.decision.Policies[t.decision]
		d.Charged, d.Refunded = max(0, settled.Cost-check.Weight), max(0, check.Weight-settled.Cost)
		s.atEnd(ending{settled: &settlement{check: check, cost: settled.Cost, source: source}})
	}
}

// responseHeader returns the header of the response to the request that is played.
func (s *Simulation) responseHeader() http.Header {
	if s.probe != nil {
		return s.probe.Response
	}
	return s.entry.ResponseHeader()
}
