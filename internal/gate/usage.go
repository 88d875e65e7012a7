package gate

import (
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/answer"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
)

// AnswerUsage answers with the client's own quotas, of all rules whatever they match, and charges nothing.
func (x *Exchange) AnswerUsage(e *rule.Evaluation) error {
	l := x.limiter
	e.AnyMatch = true
	action, err := l.Evaluate(x.request, x.repl, e)
	if err != nil {
		return x.Refuse(err)
	}
	d := x.decisionOf()
	x.acquireStores()
	answer, err := x.lookAt(e.Enforced)
	if err != nil {
		return x.AnswerWithoutDecision(err)
	}
	d.outcome, d.source = limiter.OutcomeAllowed, answer.source
	if len(answer.checks) == 0 && (action == Exempt || e.Exempted) {
		d.outcome = limiter.OutcomeExempt
	}
	d.quotas.Record(answer.checks, l.Formats, answer.at)
	if fields := x.limiter.server.logFields(x.request); fields != nil {
		d.log(fields)
	}
	return x.writeUsage(answer)
}

// lookAt returns the quotas of checks. Quotas that this process decides are always read anew.
func (x *Exchange) lookAt(checks []limiter.Check) (*usage, error) {
	if x.limiter.Stores.Redis != nil && len(checks) > 0 {
		return x.limiter.usageCache.get(checks, x.peek)
	}
	source, err := x.peek(checks)
	return &usage{checks: checks, source: source, at: time.Now()}, err
}

// peek peeks at quotas, all at once, so that a Redis that does not answer is waited for once.
func (x *Exchange) peek(checks []limiter.Check) (limiter.Source, error) {
	sources, errs := make([]limiter.Source, len(checks)), make([]error, len(checks))
	peek := func(i int) { sources[i], errs[i] = x.peekAt(&checks[i]) }
	var peeking sync.WaitGroup
	source := limiter.SourceOverride
	for i := range checks {
		if by, blocked := Blocked(&checks[i]); blocked {
			source = by
			continue
		}
		if len(checks) == 1 || x.stores.Redis == nil {
			peek(i)
		} else {
			peeking.Go(func() { peek(i) })
		}
	}
	peeking.Wait()
	for _, s := range sources {
		if s != "" && source != limiter.SourceFallback {
			source = s
		}
	}
	return source, errors.Join(errs...)
}

// peekAt peeks at one quota. A request that has waited for Redis in vain does not wait again.
func (x *Exchange) peekAt(c *limiter.Check) (limiter.Source, error) {
	mode := x.limiter.FailMode
	switch {
	case !x.decision.timedOut:
		return x.stores.PeekIn(x.request.Context(), mode, c)
	case mode == limiter.FailLocal:
		return x.stores.PeekLocal(c), nil
	}
	return "", limiter.ErrAlreadyTimedOut
}

// writeUsage writes the quotas as JSON, with the headers that every response has.
func (x *Exchange) writeUsage(answer *usage) error {
	body := answer.json(time.Since(answer.at))
	header := x.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Content-Length", strconv.Itoa(len(body)))
	header.Set("Cache-Control", "no-store")
	x.showQuotas()
	x.noteAnswer(http.StatusOK)
	x.ResponseWriter.WriteHeader(http.StatusOK)
	if x.request.Method == http.MethodHead {
		return nil
	}
	_, _ = x.ResponseWriter.Write(body) // a client that has left is no error
	return nil
}

// json returns the body, at an age of the answer: times in seconds, -1 for never. Policies without a window
// have no member for it. Names of policies need no escapes.
func (a *usage) json(age time.Duration) []byte {
	body := append(make([]byte, 0, 256), `{"policies":[`...)
	for i := range a.checks {
		c := &a.checks[i]
		if i > 0 {
			body = append(body, ',')
		}
		body = append(append(append(body, `{"name":"`...), c.Policy.Name()...), `","limit":`...)
		body = strconv.AppendInt(body, c.Policy.Capacity(), 10)
		body = strconv.AppendInt(append(body, `,"remaining":`...), c.Result.Remaining, 10)
		body = append(append(body, `,"reset_after":`...), answer.Seconds(aged(c.Result.ResetAfter, age))...)
		body = append(append(body, `,"retry_after":`...), answer.Seconds(aged(c.Result.RetryAfter, age))...)
		if !c.Policy.CountsRunning {
			body = append(append(body, `,"window":`...), windowJSON(c.Policy)...)
		}
		body = append(body, '}')
	}
	return append(body, "]}"...)
}

// windowJSON is a policy's window in seconds, or the word of its calendar periods.
func windowJSON(p *limiter.Policy) string {
	if s := p.Settings; s.Calendar != "" {
		return strconv.Quote(s.Calendar)
	}
	return answer.Seconds(p.Settings.Window)
}

// aged is what is left of a time after another.
func aged(d, age time.Duration) time.Duration {
	if d == limiter.Never {
		return d
	}
	return max(0, d-age)
}
