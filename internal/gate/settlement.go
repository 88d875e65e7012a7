package gate

import (
	"math/rand/v2"
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
)

// Units are taken before the handlers run, because a thousand requests at once would all pass a count that is made
// afterwards. [rule.Set.CostOf] says what becomes of the units: at the response's header if count_if decides alone,
// otherwise when the handlers have returned.

// Settlement is what a response makes of a check that passed.
type Settlement struct {
	*PendingCheck
	Counts bool  // count_if counts the response
	Cost   int64 // units that the request is charged in all
	Told   bool  // no fallback takes the place of the cost
}

// keepPending remembers the checks whose cost is known only after the response. For all others it emits threshold events
// now.
func (x *Exchange) keepPending(made *Decision, input int64) {
	l := x.limiter
	for i := 0; l.settles && i < len(made.Checks); i++ {
		if p, waits := l.Pending(made, i); waits {
			work := x.work()
			work.checks, work.response.Input = append(work.checks, p), input
		}
	}
	l.notifyTakes(made)
}

// keepRunning keeps checks that were decided together until the request ends, if one of them counts running
// requests: until the handlers behind this one have returned, which those of streams and of proxied WebSockets do
// when these end. The checks of a request that was denied end as well: they have nothing to return.
func (x *Exchange) keepRunning(checks []limiter.Check) {
	counts := false
	for i := range checks {
		counts = counts || checks[i].Policy.CountsRunning
	}
	if !counts {
		return
	}
	if work := x.work(); len(work.running) == 0 {
		work.running = checks
	} else {
		work.running = append(work.running[:len(work.running):len(work.running)], checks...)
	}
}

// settleAtHeader settles the checks that the header of the final response decides, and begins to measure the body if
// others are left. A client that left is charged in full, or it could cancel requests to get its units back. What a handler
// of this module answered further in has reached no backend, and is judged by its status: over HTTP/1.1 a body that it has
// waited for in vain ends the context as well.
func (x *Exchange) settleAtHeader(status int) {
	work, response := x.pending, &x.pending.response
	response.Begun = status != statusClientGone || !x.clientGone() // reverse_proxy writes 499 for a client that left
	work.tunnel = status == http.StatusOK && isTunnel(x.request)
	judged := http.StatusSwitchingProtocols // what a tunnel is answered with over HTTP/1.1
	if !work.tunnel {
		judged = x.decision.judgedStatus(status, x.Header())
	}
	response.Failure, response.Origin = judged >= http.StatusBadRequest, x.originOf(status)
	byThisModule := response.Origin == rule.FromNoBackend || response.Origin == rule.FromRefusal
	response.Left = !byThisModule && x.clientGone()
	if response.Left && !response.Begun {
		judged = 0
	}
	if work.timing != nil {
		work.timing.end(x.decision)
		work.timing.switched = judged == http.StatusSwitchingProtocols
	}
	x.settleByStatus(judged)
	x.releaseIfIdle()
	work.measures = len(work.checks) > 0 && !work.tunnel // what passes a tunnel is no body
	if !response.Begun || !work.measures || isHead(x.request) {
		return
	}
	for i := range work.checks {
		if work.checks[i].Rule.Cost.ReadsBody() {
			response.Body = x.limiter.Rules.NewBody(x.Header())
			return
		}
	}
}

// isTunnel reports whether a response of 200 begins the WebSocket of a request by HTTP/2 or 3 (RFC 8441). What
// is behind Caddy's reverse proxy has answered 101 then.
func isTunnel(r *http.Request) bool {
	if caddyhttp.GetVar(r.Context(), "extended_connect_websocket_body") == nil {
		return false
	}
	repl := replacerOf(r)
	if repl == nil {
		return false
	}
	behind, _ := repl.Get("http.reverse_proxy.status_code")
	return behind == http.StatusSwitchingProtocols
}

// settleByStatus settles the checks that need not wait for the end of the response, by its status and header: checks
// that count_if does not count, checks without a cost, and all if the response comes from no backend. A response without a
// status (0) counts.
func (x *Exchange) settleByStatus(status int) {
	work := x.pending
	if work == nil || len(work.checks) == 0 {
		return
	}
	work.response.Status, work.response.Header = status, x.Header()
	if status != 0 && !work.response.Left {
		x.watchCountIf()
	}
	x.settleResponse()
	work.response.Status = 0
}

// watchCountIf reports policies whose count_if matches none of their first responses.
func (x *Exchange) watchCountIf() {
	l, work := x.limiter, x.pending
	for i := range work.checks {
		r := work.checks[i].Rule
		if r.CountIf == nil || l.CountIfs[r.Index] == nil {
			continue
		}
		method, _ := originalRequest(x.request)
		if statuses, unmatched := l.CountIfs[r.Index].Look(method, work.response.Status, r.Counts(&work.response)); unmatched {
			l.Counters[r.Index].CountUnmatched()
			l.Logger.Info("count_if matched none of the first 1,000 responses: see in the statuses what a failure is answered with",
				zap.String("policy", r.Policy.Name()), zap.String("statuses", statuses))
		}
	}
}

// settleByRefusal settles checks by the error of [rule.Refuse] with which this handler ends a request that it has not let
// through.
func (x *Exchange) settleByRefusal(err error) {
	if x.pending != nil && len(x.pending.checks) > 0 {
		status, _ := x.endingOf(err)
		x.settleByStatus(status)
	}
}

// settleUnanswered settles checks by the error of handlers that wrote no response. What Caddy answers then is complete. All
// are charged in full if the client may be the cause of the error: it left, or it broke what is behind the handlers.
func (x *Exchange) settleUnanswered(err error) {
	status, how := x.endingOf(err)
	response, judged := &x.pending.response, status
	if how == breaks {
		judged = 0
	}
	if response.Left = how != refuses && x.clientGone(); response.Left {
		how = breaks
	}
	response.Begun, response.Complete = how == answers, how == answers
	response.Failure, response.Origin = status >= http.StatusBadRequest, x.originOfNone(how)
	x.settleByStatus(judged)
}

// endPending settles the checks that are left, by the response as it is, and ends the request for the policies that
// count it as running. A response that began before a handler further in refused the request is not the response of the refusal.
func (x *Exchange) endPending() {
	work, response := x.pending, &x.pending.response
	if len(work.checks) > 0 {
		response.Request, response.Ended = x.request, true
		if response.Origin == rule.FromHandlers && x.decision.refused {
			response.Origin = rule.AfterRefusal
		}
		if response.Body != nil {
			response.Body.End()
			response.Complete = response.Complete || response.Body.Complete()
		}
		if isHead(x.request) {
			response.Bytes = 0
		}
		if x.limiter.timesBackend {
			response.BackendTime = x.backendTime()
		}
		x.settleResponse()
	}
	if len(work.running) > 0 {
		x.stores.EndRunning(work.running)
		work.running = nil
	}
	if x.place != nil {
		x.place.End()
		x.place = nil
	}
}

// settleResponse settles the checks whose cost the response tells so far. The others go on waiting.
func (x *Exchange) settleResponse() {
	work := x.pending
	waiting := work.checks[:0]
	for i := range work.checks {
		if settlement, waits := x.limiter.Settle(&work.checks[i], &work.response); waits {
			waiting = append(waiting, work.checks[i])
		} else {
			x.apply(&settlement)
		}
	}
	work.checks = waiting
}

// Settle returns what a response makes of a check that passed. A check with a cost waits for the end of a response that
// counts, unless that comes from no backend.
func (l *Limiter) Settle(p *PendingCheck, response *rule.Response) (s Settlement, waits bool) {
	var repl *caddy.Replacer
	counts := p.counts(response)
	switch {
	case !counts:
		return Settlement{PendingCheck: p, Told: true}, false
	case response.Ended:
		repl = replacerOf(response.Request)
	case p.Rule.Cost.From != "" && response.Origin != rule.FromNoBackend:
		p.counted = true
		return s, true
	}
	s = Settlement{PendingCheck: p, Counts: counts}
	s.Cost, s.Told = l.Rules.CostOf(p.Rule, repl, response, p.Check.Weight)
	return s, false
}

// counts reports whether a response counts for the check, or whether its header did: a look's is judged once.
func (p *PendingCheck) counts(response *rule.Response) bool {
	if p.Check.Look {
		return p.counted || p.Rule.CountsLook(response)
	}
	return p.Rule.Counts(response)
}

// apply changes what a check took to what its request costs, and emits the threshold events of the difference. The
// events of a take that is never refunded were emitted with it.
func (x *Exchange) apply(s *Settlement) {
	l, counters, taken := x.limiter, x.limiter.Counters[s.Rule.Index], s.Check.Weight
	if used := limiter.Taken(&s.Check) + limiter.SettleTo(&s.Check, s.Cost).Units; used != 0 || s.Check.Takes() {
		counters.Used.Add(s.Check.Key, used, rand.Uint64())
	}
	x.stores.Settle(s.Check, s.Cost, s.Source)
	switch {
	case s.Check.Look:
		l.notifyCost(x.stores, s.PendingCheck, s.Cost)
	case !s.Check.Refundable:
		l.notifyCost(x.stores, s.PendingCheck, s.Cost-taken)
	case s.Cost == taken:
		l.notifyTake(&s.Check, s.Rule, s.Source, s.DryRun)
	default:
		l.notifyCost(x.stores, s.PendingCheck, s.Cost)
	}
	if s.Rule.CountIf != nil {
		counters.CountResponse(s.Counts)
	}
	if s.Counts && s.Cost != taken {
		counters.CountSettled(s.Cost - taken)
	}
	isFree := !s.Counts || s.Cost == 0 && x.pending.response.Origin == rule.FromNoBackend
	switch {
	case s.DryRun:
	case s.Check.Look && s.Cost > 0:
		x.decision.quotas.Charge(&s.Check, s.Cost)
	case isFree && s.Check.Takes():
		x.decision.quotas.Refund(&s.Check)
	}
}
