package redisratelimit

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/quotaheader"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storepool"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/failover"
)

// serveUsage answers with the client's own quotas, and charges nothing.
func (h *Handler) serveUsage(w http.ResponseWriter, r *http.Request, repl *caddy.Replacer, p *responseWriter) error {
	evaluation := rule.Evaluation{Enforced: p.room(len(h.rules.Rules))}
	if err := h.rules.Quotas(r, repl, &evaluation); err != nil {
		return fail(w, r, err)
	}
	p.use(h)
	defer p.end()
	d := p.decisionFor(repl)
	answer, err := h.lookAtUsage(evaluation.Enforced, func(checks []limiter.Check) (limiter.Source, error) {
		return h.peekUsage(r.Context(), p.stores, checks, d.timedOut)
	})
	if err != nil {
		return h.failUsage(w, p, err)
	}
	d.outcome, d.source = rule.Allowed, answer.source
	if len(answer.checks) == 0 && (evaluation.Exempted || h.rules.IsExempt(r)) {
		d.outcome = rule.Exempt
	}
	d.quotas.Record(answer.checks, h.formats, answer.at)
	d.log(r)
	return writeUsage(w, p, answer)
}

// lookAtUsage returns the quotas of checks by the function. In this process they are always read anew.
func (h *Handler) lookAtUsage(checks []limiter.Check, peek func([]limiter.Check) (limiter.Source, error)) (*usageAnswer, error) {
	if h.app.opened.Options != nil && len(checks) > 0 {
		return h.usage.look(checks, peek)
	}
	source, err := peek(checks)
	return &usageAnswer{checks: checks, source: source, at: time.Now()}, err
}

// peekUsage peeks at quotas, all at once, so that a Redis that does not answer is waited for once.
func (h *Handler) peekUsage(ctx context.Context, stores *storepool.Stores, checks []limiter.Check, timedOut bool) (limiter.Source, error) {
	sources, errs := make([]limiter.Source, len(checks)), make([]error, len(checks))
	peek := func(i int) {
		if timedOut && h.FailMode != failover.FailLocal {
			errs[i] = limiter.ErrAlreadyTimedOut
		} else if timedOut {
			sources[i] = stores.PeekLocal(&checks[i])
		} else {
			sources[i], errs[i] = stores.PeekIn(ctx, h.FailMode, &checks[i])
		}
	}
	var peeking sync.WaitGroup
	source := rule.SourceOverride
	for i := range checks {
		if !checks[i].Result.Passes() { // blocked
			source = rule.BlockSource(&checks[i])
			continue
		}
		if len(checks) == 1 || stores.Redis == nil {
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

// writeUsage writes the quotas, with the headers that every response has.
func writeUsage(w http.ResponseWriter, p *responseWriter, answer *usageAnswer) error {
	body := answer.json(time.Since(answer.at))
	header := w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Content-Length", strconv.Itoa(len(body)))
	header.Set("Cache-Control", "no-store")
	p.decision.quotas.SetHeaders(header)
	w.WriteHeader(http.StatusOK)
	if p.request.Method == http.MethodHead {
		return nil
	}
	_, err := w.Write(body)
	return err
}

// json returns the body, at an age of the answer: times in seconds, -1 for never. Policies without a window
// have no member for it. Names of policies need no escapes.
func (a *usageAnswer) json(age time.Duration) []byte {
	body := append(make([]byte, 0, 256), `{"policies":[`...)
	for i := range a.checks {
		c := &a.checks[i]
		if i > 0 {
			body = append(body, ',')
		}
		body = append(append(append(body, `{"name":"`...), c.Policy.Name()...), `","limit":`...)
		body = strconv.AppendInt(body, c.Policy.Capacity(), 10)
		body = strconv.AppendInt(append(body, `,"remaining":`...), c.Result.Remaining, 10)
		body = append(append(body, `,"reset_after":`...), quotaheader.Seconds(aged(c.Result.ResetAfter, age))...)
		body = append(append(body, `,"retry_after":`...), quotaheader.Seconds(aged(c.Result.RetryAfter, age))...)
		if !c.Policy.CountsRunning() {
			body = append(append(body, `,"window":`...), windowJSON(c.Policy)...)
		}
		body = append(body, '}')
	}
	return append(body, "]}"...)
}

// windowJSON is a policy's window in seconds, or the word of its calendar periods.
func windowJSON(p *limiter.Policy) string {
	if s := p.Settings(); s.Calendar != "" {
		return strconv.Quote(s.Calendar)
	}
	return quotaheader.Seconds(p.Settings().Window)
}

// aged is what is left of a time after another.
func aged(d, age time.Duration) time.Duration {
	if d == limiter.Never {
		return d
	}
	return max(0, d-age)
}

// failUsage answers that the quotas are not known now. There is no answer to let through.
func (h *Handler) failUsage(w http.ResponseWriter, p *responseWriter, err error) error {
	r := p.request
	if !errors.Is(err, limiter.ErrUndecided) {
		status := statusClientGone
		if errors.Is(err, context.DeadlineExceeded) {
			status = http.StatusGatewayTimeout
		}
		return fail(w, r, rule.Refuse(status, err))
	}
	_, probe := p.stores.Failing()
	quotaheader.SetRefusal(w.Header(), probe, time.Duration(h.RetryJitter))
	p.decision.quotas.SetHeaders(w.Header())
	if h.ProblemDetails {
		return quotaheader.ReducedCapacity(http.StatusServiceUnavailable).Write(w)
	}
	return fail(w, r, rule.Refuse(http.StatusServiceUnavailable, errUnavailable))
}
