package redisratelimit

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/explain"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/quotaheader"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

// usageReport is what a client gets of its quotas.
type usageReport struct {
	Policies []usageQuota `json:"policies"`
}

// usageQuota is one of them: times in seconds, -1 for never.
type usageQuota struct {
	Name       string  `json:"name"`
	Limit      int64   `json:"limit"`
	Remaining  int64   `json:"remaining"`
	ResetAfter float64 `json:"reset_after"`
	RetryAfter float64 `json:"retry_after"`
	Window     float64 `json:"window"`
}

// serveUsage answers with the client's own quotas, and charges nothing.
func (h *Handler) serveUsage(w http.ResponseWriter, r *http.Request, repl *caddy.Replacer, p *responseWriter) error {
	evaluation := rule.Evaluation{Enforced: p.checks[:0]}
	if err := h.rules.Quotas(r, repl, &evaluation); err != nil {
		return fail(w, r, err)
	}
	d := p.decisionFor(repl)
	answer, err := h.lookAtUsage(evaluation.Enforced, func(checks []limiter.Check) (limiter.Source, error) {
		return h.peekUsage(r.Context(), checks, d.timedOut)
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
	if h.app.remote != nil && len(checks) > 0 {
		return h.usage.look(checks, peek)
	}
	source, err := peek(checks)
	return &usageAnswer{checks: checks, source: source, at: time.Now()}, err
}

// peekUsage peeks at quotas, all at once, so that a Redis that does not answer is waited for once.
func (h *Handler) peekUsage(ctx context.Context, checks []limiter.Check, timedOut bool) (limiter.Source, error) {
	sources, errs := make([]limiter.Source, len(checks)), make([]error, len(checks))
	peek := func(i int) {
		if timedOut && h.FailMode != limiter.FailLocal {
			errs[i] = limiter.ErrAlreadyTimedOut
		} else if timedOut {
			sources[i] = h.app.store.PeekLocal(&checks[i])
		} else {
			sources[i], errs[i] = h.app.store.PeekIn(ctx, h.FailMode, &checks[i])
		}
	}
	var peeking sync.WaitGroup
	source := rule.SourceOverride
	for i := range checks {
		if !checks[i].Result.Passes() {
			continue // blocked
		}
		if len(checks) == 1 || h.app.remote == nil {
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
	report, age := usageReport{Policies: []usageQuota{}}, time.Since(answer.at)
	for i := range answer.checks {
		c := &answer.checks[i]
		quota := explain.Quota(c.Policy, c.Result)
		report.Policies = append(report.Policies, usageQuota{
			Name: c.Policy.Name(), Limit: quota.Limit, Remaining: quota.Remaining,
			ResetAfter: aged(quota.ResetAfter, age), RetryAfter: aged(quota.RetryAfter, age),
			Window: explain.Seconds(c.Policy.Settings().Window),
		})
	}
	body, err := json.Marshal(report)
	if err != nil {
		return err
	}
	header := w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Content-Length", strconv.Itoa(len(body)))
	header.Set("Cache-Control", "no-store")
	p.decision.quotas.SetHeaders(header)
	w.WriteHeader(http.StatusOK)
	if p.request.Method == http.MethodHead {
		return nil
	}
	_, err = w.Write(body)
	return err
}

// aged returns what is left of a time in seconds after another; -1 stays what it is.
func aged(seconds float64, age time.Duration) float64 {
	if seconds < 0 {
		return seconds
	}
	return max(0, explain.Seconds(time.Duration(seconds*float64(time.Second))-age))
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
	_, probe := h.app.store.Failing()
	quotaheader.SetRefusal(w.Header(), probe, time.Duration(h.RetryJitter))
	p.decision.quotas.SetHeaders(w.Header())
	if h.ProblemDetails {
		return quotaheader.ReducedCapacity(http.StatusServiceUnavailable).Write(w)
	}
	return fail(w, r, rule.Refuse(http.StatusServiceUnavailable, errUnavailable))
}
