package redisratelimit

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

// dryRun decides checks that only pretend to limit: each by itself, so that none is in the way of
// another, and at the same time as those that are enforced, so that nobody waits for them longer.
type dryRun struct {
	refusing []dryRefusal
	began    time.Time
	checks   []limiter.Check
	sources  []limiter.Source
	running  sync.WaitGroup
}

// dryRefusal is a dry-run rule that would refuse a request without a decision, and why: its key is empty,
// or its matchers fail.
type dryRefusal struct {
	rule *rule
	err  error
}

// start begins to decide the checks.
func (h *Handler) start(joined *decision, r *http.Request, checks []limiter.Check, refusing []dryRefusal) *dryRun {
	if len(checks)+len(refusing) == 0 {
		return nil
	}
	d := &dryRun{refusing: refusing, began: time.Now(), checks: checks, sources: make([]limiter.Source, len(checks))}
	waited := joined.timedOut // before the enforced checks, which are decided meanwhile
	for i := range checks {
		d.running.Go(func() {
			source, err := h.decideOrFallback(r, checks[i:i+1:i+1], limiter.FailLocal, waited)
			if err == nil {
				d.sources[i] = source // where the client has left there is nothing to tell
			}
		})
	}
	return d
}

// end waits for the checks, counts them and notes those that would have denied.
func (h *Handler) end(d *dryRun, p *responseWriter) {
	if d == nil {
		return
	}
	d.running.Wait()
	joined := p.decision
	for i := range d.refusing {
		h.noteRefusal(joined, &d.refusing[i])
	}
	if slices.Contains(d.sources, limiter.SourceFallback) && h.timedOutSince(d.began) {
		joined.timedOut = true
	}
	for i := range d.checks {
		check := &d.checks[i]
		if d.sources[i] == "" {
			continue
		}
		would := outcomeDryAllowed
		if !check.Result.Passes() {
			would = outcomeDryDenied
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
		joined.outcome = outcomeAllowed
	}
}

// noteRefusal counts a refusal that is only pretended. It needs no store but this process.
func (h *Handler) noteRefusal(joined *decision, refusal *dryRefusal) {
	policy := refusal.rule.policy.Name()
	joined.wouldDeny(policy)
	refusal.rule.counters.count(outcomeDryDenied, limiter.SourceMemory)
	if c := h.logger.Check(zap.DebugLevel, "request would be denied"); c != nil {
		c.Write(zap.String("policy", policy), zap.Error(refusal.err))
	}
}

// wouldDeny notes a policy that pretends to limit and would have denied.
func (d *decision) wouldDeny(policy string) {
	if !slices.Contains(d.dryRun, policy) {
		d.dryRun = append(d.dryRun, policy)
	}
}

// dryRunText names the policies that would have denied.
func (d *decision) dryRunText() string { return strings.Join(d.dryRun, ",") }
