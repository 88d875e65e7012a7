package gate

import (
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
)

// keep keeps of a question that was decided what waits for the response, and emits the events of the rest.
func (x *Exchange) keep(q *CheckGroup) {
	l := x.limiter
	for i := 0; l.settles && i < len(q.Checks); i++ {
		if p, waits := l.Pending(q, i); waits {
			x.pending.checks = append(x.pending.checks, p)
		}
	}
	l.notifyTakes(q)
}

// keepRunning keeps checks that were decided together until the request ends, if one of them counts running
// requests: until the handlers behind this one have returned, which those of streams and of proxied WebSockets do
// when these end. Those of a request that was denied end as well: they have nothing to return.
func (x *Exchange) keepRunning(checks []limiter.Check) {
	if !x.limiter.countsRunning || !countRunning(checks) {
		return
	}
	if a := x.pending; len(a.running) == 0 {
		a.running = checks
	} else {
		a.running = append(a.running[:len(a.running):len(a.running)], checks...)
	}
}

// settleByStatus settles the checks that are not to wait for the end of the response, by its status and header: those that
// count_if does not count, and those without a cost. All count if the client has left: it must not get units back
// by leaving. So they do without a status.
func (x *Exchange) settleByStatus(status int, header http.Header) {
	a := x.pending
	if !a.settles() {
		return
	}
	if x.clientGone() {
		status = 0
	}
	a.response.Status, a.response.Header = status, header
	if status != 0 {
		x.watchCountIf()
	}
	x.settleResponse()
	a.response.Status = 0
}

// watchCountIf reports policies whose count_if matches none of their first responses.
func (x *Exchange) watchCountIf() {
	l, a := x.limiter, x.pending
	for i := range a.checks {
		r := a.checks[i].Rule
		if r.CountIf == nil || l.CountIfs[r.Index] == nil {
			continue
		}
		method, _ := originalRequest(x.request)
		if statuses, unmatched := l.CountIfs[r.Index].Look(method, a.response.Status, r.Counts(&a.response)); unmatched {
			l.Counters[r.Index].CountUnmatched()
			l.Logger.Info("count_if matched none of the first 1,000 responses: see in the statuses what a failure is answered with",
				zap.String("policy", r.Policy.Name()), zap.String("statuses", statuses))
		}
	}
}

// settleByError does so if the handlers end without a response. All count if the client may be the cause: it left, or
// it broke what is behind the handlers.
func (x *Exchange) settleByError(err error) (status int, how ending) {
	if !x.pending.settles() {
		return 0, answers
	}
	status, how = x.endingOf(err)
	judged := status
	if how == breaks {
		judged = 0
	}
	x.settleByStatus(judged, x.Header())
	return status, how
}

// endUnanswered ends handlers that wrote no response. What Caddy answers then is complete.
func (x *Exchange) endUnanswered(err error) {
	status, how := x.settleByError(err)
	if a := x.pending; a != nil {
		a.response.Refused, a.response.Unreached = how == refuses, how == unreached
		a.response.Begun, a.response.Complete = how == answers, how == answers
		a.response.Failure = status >= http.StatusBadRequest
	}
}

// settle settles the checks that are left, by the response as it is.
func (x *Exchange) settle() {
	a := x.pending
	if !a.settles() {
		return
	}
	response := &a.response
	response.Request, response.Ended = x.request, true
	if response.Body != nil {
		response.Body.End()
		response.Complete = response.Complete || response.Body.Complete()
	}
	if isHead(x.request) {
		response.Bytes = 0
	}
	x.settleResponse()
}

// settleResponse applies what the response does to the checks that passed, as far as it is known.
func (x *Exchange) settleResponse() {
	a := x.pending
	waiting := a.checks[:0]
	for i := range a.checks {
		if effect, waits := x.limiter.Settle(&a.checks[i], &a.response); waits {
			waiting = append(waiting, a.checks[i])
		} else {
			x.apply(&effect)
		}
	}
	a.checks = waiting
}

// apply makes what a check took what its request costs, and emits the events of that. The events of a take that is
// never refunded were emitted with it.
func (x *Exchange) apply(e *Settlement) {
	l, taken := x.limiter, e.Check.Weight
	x.stores.Settle(e.Check, e.Cost, e.Source)
	switch {
	case !e.Check.Refundable:
		l.notifyCost(x.stores, e.PendingCheck, e.Cost-taken)
	case e.Cost == taken:
		l.notifyTake(&e.Check, e.Rule, e.Source, e.DryRun)
	default:
		l.notifyCost(x.stores, e.PendingCheck, e.Cost)
	}
	if e.Rule.CountIf != nil {
		l.Counters[e.Rule.Index].CountResponse(e.Counts)
	}
	switch {
	case e.Counts && e.Cost != taken:
		l.Counters[e.Rule.Index].CountSettled(e.Cost - taken)
	case !e.Counts && !e.DryRun:
		x.decision.quotas.Refund(&e.Check)
	}
}

// End ends the request for the policies that count it, and its use of the stores, whatever became of the
// handlers.
func (x *Exchange) End() {
	if a := x.pending; a != nil {
		if len(a.running) > 0 {
			x.stores.EndRunning(a.running)
			a.running = nil
		}
		a.response.Refused = true // handlers that were called have left no check
		x.settle()
	}
	x.releaseIfIdle()
}

// This file is the last step: what follows the response? Units are taken before the handlers run, because a
// thousand requests at once would all pass a count that is made afterwards. [rule.Set.CostOf] says what becomes of
// them: at the response's header where count_if decides alone, otherwise when the handlers have returned.

// PendingCheck is a check that passed and that its response has to do with.
type PendingCheck struct {
	Check  limiter.Check
	Rule   *rule.Rule
	Source limiter.Source // that decided
	DryRun bool
}

// Pending returns a check of a question that was decided, and whether its response has to do with it.
func (l *Limiter) Pending(q *CheckGroup, i int) (p PendingCheck, waits bool) {
	c := &q.Checks[i]
	r := l.Rules.RuleOf(c)
	if !c.Result.Passes() || !r.AwaitsResponse() {
		return p, false
	}
	return PendingCheck{Check: *c, Rule: r, Source: q.Source, DryRun: q.DryRun}, true
}

// Settlement is what a response does to a check that passed.
type Settlement struct {
	*PendingCheck
	Counts bool  // count_if counts the response
	Cost   int64 // what the request is charged in all
	Told   bool  // no fallback takes the cost's place
}

// Settle returns what a response does to a check that passed. One with a cost waits for the end of a response that
// counts.
func (l *Limiter) Settle(p *PendingCheck, response *rule.Response) (e Settlement, waits bool) {
	var repl *caddy.Replacer
	counts := p.Rule.Counts(response)
	switch {
	case response.Ended:
		repl = replacerOf(response.Request)
	case counts && p.Rule.Cost.From != "":
		return e, true
	}
	e = Settlement{PendingCheck: p, Counts: counts}
	e.Cost, e.Told = l.Rules.CostOf(p.Rule, repl, response, p.Check.Weight)
	return e, false
}

// LongestDelay returns for how long the queues of checks hold their request.
func LongestDelay(checks []limiter.Check) (longest time.Duration) {
	for i := range checks {
		longest = max(longest, checks[i].Result.Delay)
	}
	return longest
}

// statusClientGone is what servers log for a client that left before its answer.
const statusClientGone = 499

// BrokeOff reports whether the status in a log says that the client left, or that a proxy got no answer from what is
// behind it. A log does not show that the proxy could not connect, which is charged nothing.
func BrokeOff(status int) bool {
	return status == statusClientGone || status == http.StatusBadGateway || status == http.StatusGatewayTimeout
}

// pendingWork is what ends with a response or with its request. Most requests of most handlers have nothing of it.
type pendingWork struct {
	checks   []PendingCheck  // that the response settles
	running  []limiter.Check // those that end with the request
	response rule.Response   // so far
	failed   bool            // a part of the body was not written
	tunnels  bool            // the response of 200 begins a WebSocket

	answered any // the latency of a backend that answered before the handlers behind this one were called; nil: none did
}

// settles reports whether units depend on the response.
func (a *pendingWork) settles() bool { return a != nil && len(a.checks) > 0 }

// countRunning reports whether one of the checks is of a policy that counts running requests.
func countRunning(checks []limiter.Check) bool {
	for i := range checks {
		if checks[i].Policy.CountsRunning() {
			return true
		}
	}
	return false
}
