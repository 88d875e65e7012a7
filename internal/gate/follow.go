package gate

import (
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
)

// This file is the last step: what follows the response? Units are taken before the handlers run, because a
// thousand requests at once would all pass a count that is made afterwards. [rule.Set.CostOf] says what becomes of
// them: at the response's header where count_if decides alone, otherwise when the handlers have returned.

// Passed is a check that passed and that its response has to do with.
type Passed struct {
	Check  limiter.Check
	Rule   *rule.Rule
	Source limiter.Source // that decided
	DryRun bool
}

// Passed returns a check of a question that was decided, and whether its response has to do with it.
func (l *Limiter) Passed(q *Question, i int) (p Passed, waits bool) {
	c := &q.Checks[i]
	r := l.Rules.RuleOf(c)
	if !c.Result.Passes() || !r.AwaitsResponse() {
		return p, false
	}
	return Passed{Check: *c, Rule: r, Source: q.Source, DryRun: q.DryRun}, true
}

// Effect is what a response does to a check that passed.
type Effect struct {
	*Passed
	Counts bool  // count_if counts the response
	Cost   int64 // what the request is charged in all
	Told   bool  // no fallback takes the cost's place
}

// Follow returns what a response does to a check that passed. One with a cost waits for the end of a response that
// counts.
func (l *Limiter) Follow(p *Passed, response *rule.Response) (e Effect, waits bool) {
	var repl *caddy.Replacer
	counts := p.Rule.Counts(response)
	switch {
	case response.Ended:
		repl = replacerOf(response.Request)
	case counts && p.Rule.Cost.From != "":
		return e, true
	}
	e = Effect{Passed: p, Counts: counts}
	e.Cost, e.Told = l.Rules.CostOf(p.Rule, repl, response, p.Check.Weight)
	return e, false
}

// Delay returns for how long the queues of checks hold their request.
func Delay(checks []limiter.Check) (longest time.Duration) {
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

// awaited is what ends with a response or with its request. Most requests of most handlers have nothing of it.
type awaited struct {
	passed   []Passed        // that the response settles
	running  []limiter.Check // those that end with the request
	response rule.Response   // so far
	failed   bool            // a part of the body was not written
	tunnels  bool            // the response of 200 begins a WebSocket

	answered any // the latency of a backend that answered before the handlers behind this one were called; nil: none did
}

// settles reports whether units depend on the response.
func (a *awaited) settles() bool { return a != nil && len(a.passed) > 0 }

// countRunning reports whether one of the checks is of a policy that counts running requests.
func countRunning(checks []limiter.Check) bool {
	for i := range checks {
		if checks[i].Policy.CountsRunning() {
			return true
		}
	}
	return false
}
