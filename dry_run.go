package redisratelimit

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

// dryRun decides the checks of dry-run policies: each by itself, so that none affects another, and
// together with those that are enforced, so that no request waits longer for them.
type dryRun struct {
	refusals []rule.DryRefusal
	began    time.Time
	checks   []limiter.Check
	sources  []limiter.Source
	running  sync.WaitGroup
}

// startDryRun begins to decide the dry-run checks; nil where there are none.
func (h *Handler) startDryRun(joined *decision, r *http.Request, e *rule.Evaluation) *dryRun {
	checks := e.DryRun
	if len(checks)+len(e.DryRefusals) == 0 {
		return nil
	}
	d := &dryRun{refusals: e.DryRefusals, began: time.Now(), checks: checks, sources: make([]limiter.Source, len(checks))}
	timedOut := joined.timedOut // before the enforced checks, which are decided meanwhile
	for i := range checks {
		d.running.Go(func() {
			source, err := h.decideOrFallback(r, checks[i:i+1:i+1], limiter.FailLocal, timedOut)
			if err == nil {
				d.sources[i] = source // stays empty if the client has left
			}
		})
	}
	return d
}

// endDryRun waits for the checks, counts them and records those that would have denied.
func (h *Handler) endDryRun(d *dryRun, p *responseWriter) {
	if d == nil {
		return
	}
	d.running.Wait()
	joined := p.decision
	for i := range d.refusals {
		h.countDryRefusal(joined, &d.refusals[i])
	}
	if slices.Contains(d.sources, limiter.SourceFallback) && h.timedOutSince(d.began) {
		joined.timedOut = true
	}
	for i := range d.checks {
		check := &d.checks[i]
		if d.sources[i] == "" {
			continue
		}
		would := rule.DryAllowed
		if !check.Result.Passes() {
			would = rule.DryDenied
			joined.wouldDeny(check.Policy.Name())
			if c := h.logger.Check(zap.DebugLevel, "request would be denied"); c != nil {
				c.Write(h.describe(check)...)
			}
		}
		h.reserve(p, d.checks[i:i+1], d.sources[i])
		h.deferCharge(p, d.checks[i:i+1], d.sources[i])
		h.count(d.checks[i:i+1], would, d.sources[i])
	}
	if joined.outcome == "" {
		joined.outcome = rule.Allowed
	}
}

// countDryRefusal counts a refusal by a dry-run rule. No store but this process is involved.
func (h *Handler) countDryRefusal(joined *decision, refusal *rule.DryRefusal) {
	policy := refusal.Rule.Policy.Name()
	joined.wouldDeny(policy)
	h.counters[refusal.Rule.Index].count(rule.DryDenied, limiter.SourceMemory)
	if c := h.logger.Check(zap.DebugLevel, "request would be denied"); c != nil {
		c.Write(zap.String("policy", policy), zap.Error(refusal.Err))
	}
}

// wouldDeny records a dry-run policy that would have denied.
func (d *decision) wouldDeny(policy string) {
	if !slices.Contains(d.dryRun, policy) {
		d.dryRun = append(d.dryRun, policy)
	}
}

// dryRunText names the policies that would have denied.
func (d *decision) dryRunText() string { return strings.Join(d.dryRun, ",") }
