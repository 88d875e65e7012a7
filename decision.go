package redisratelimit

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/quotaheader"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storepool"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/failover"
)

// decision is what all handlers that a request met have decided about it. It lives as long as the
// request.
type decision struct {
	outcome  rule.Outcome
	source   limiter.Source
	refusal  rule.Reason // of the last denial
	quotas   quotaheader.Quotas
	dryRun   []string // the dry-run policies that would have denied, with ":banned" by a ban
	serving  bool     // a handler sees the response and sets the headers
	timedOut bool     // the request has waited for Redis in vain, which it does once

	callStatus uint16 // the status of HTTP that a refusal in gRPC's form stands for; 0: there is none
}

// decisionVar is the request variable that holds the decision.
const decisionVar = "redis_ratelimit.decision"

// join makes a decision the request's, or returns the one of an earlier handler.
func (d *decision) join(r *http.Request, repl *caddy.Replacer) *decision {
	if vars, ok := r.Context().Value(caddyhttp.VarsCtxKey).(map[string]any); ok {
		if earlier, ok := vars[decisionVar].(*decision); ok {
			return earlier
		}
		vars[decisionVar] = d
	}
	if repl != nil {
		repl.Map(d.placeholder)
	}
	return d
}

// String is the outcome alone. Requests' variables can be written to logs, which must not get clients'
// keys.
func (d *decision) String() string { return string(d.outcome) }

// add merges what one more handler decided, at an instant of this node's clock. A denial ends the request, so that the last outcome is that of
// the request. The headers show the policy that binds over all handlers.
func (d *decision) add(checks []limiter.Check, source limiter.Source, f quotaheader.Formats, now time.Time) {
	d.outcome, d.source = rule.Allowed, source
	if !limiter.Allowed(checks) {
		d.outcome, d.refusal = rule.Denied, rule.ReasonOf(checks, source)
	}
	d.quotas.Record(checks, f, now)
}

// reason returns why the request is denied; empty if it is not.
func (d *decision) reason() rule.Reason {
	if d.outcome != rule.Denied {
		return ""
	}
	return d.refusal
}

// fail records that this handler's policies could not be decided.
func (d *decision) fail(o rule.Outcome) { d.outcome, d.source = o, limiter.SourceRedis }

// log adds the decision to the access log.
func (d *decision) log(r *http.Request) {
	if server, ok := r.Context().Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server); ok && server != nil && server.Logs == nil {
		return // it has none
	}
	fields, ok := r.Context().Value(caddyhttp.ExtraLogFieldsCtxKey).(*caddyhttp.ExtraLogFields)
	if !ok {
		return
	}
	fields.Set(zap.String("ratelimit_decision", string(d.outcome)))
	if d.refusal != "" { // also where the handler of an error route decides after a denial
		fields.Set(zap.String("ratelimit_reason", string(d.reason())))
	}
	if len(d.dryRun) > 0 {
		fields.Set(zap.String("ratelimit_dry_run", d.dryRunText()))
	}
	if binding := d.quotas.Binding(); binding != nil {
		fields.Set(zap.String("ratelimit_policy", binding.Policy.Name()))
	}
}

// placeholderPrefix begins the names of all placeholders.
const placeholderPrefix = "http.redis_ratelimit."

// placeholder is the value of a {http.redis_ratelimit.*} placeholder: times in seconds. Those
// of a policy are empty where none was decided.
func (d *decision) placeholder(name string) (any, bool) {
	name, ok := strings.CutPrefix(name, placeholderPrefix)
	if !ok {
		return nil, false
	}
	switch name {
	case "decision":
		return string(d.outcome), true
	case "reason":
		return string(d.reason()), true
	case "source":
		return string(d.source), true
	case "dry_run":
		return d.dryRunText(), true
	}
	binding := d.quotas.Binding()
	if binding == nil {
		return nil, slices.Contains([]string{"policy", "limit", "remaining", "retry_after", "reset_after"}, name)
	}
	switch name {
	case "policy":
		return binding.Policy.Name(), true
	case "limit":
		return binding.Policy.Capacity(), true
	case "remaining":
		return binding.Result.Remaining, true
	case "retry_after":
		return quotaheader.Seconds(binding.Result.RetryAfter), true
	case "reset_after":
		return quotaheader.Seconds(binding.Result.ResetAfter), true
	}
	return nil, false
}

// decide has the store decide the checks that are enforced, unless they are refused already, and returns when
// it has.
func (h *Handler) decide(d *decision, r *http.Request, stores *storepool.Stores, e *rule.Evaluation) (source limiter.Source, decided time.Time, err error) {
	if e.Blocked {
		return e.BlockedBy, time.Now(), nil
	}
	start := time.Now()
	source, err = decideOrFallback(r, stores, h.FailMode, e.Enforced, d.timedOut)
	took := time.Since(start)
	switch {
	case source == limiter.SourceMemory:
		memorySeconds.Observe(took.Seconds())
	case err != nil || source == limiter.SourceFallback:
		d.timedOut = d.timedOut || h.isTimeout(took)
	}
	return source, start.Add(took), err
}

// decideOrFallback has the store decide. A request that has waited for Redis in vain does not wait again,
// so that the waits of several handlers do not add up.
func decideOrFallback(r *http.Request, stores *storepool.Stores, mode failover.FailMode, checks []limiter.Check, timedOut bool) (limiter.Source, error) {
	if timedOut {
		return stores.Fallback(mode, checks, limiter.ErrAlreadyTimedOut)
	}
	return stores.DecideIn(r.Context(), mode, checks)
}

// isTimeout reports whether a request without an answer for so long has waited for one, and was not refused
// at once.
func (h *Handler) isTimeout(took time.Duration) bool { return took >= time.Duration(h.app.Timeout)/2 }

// count counts what was decided: for a denial only the policies that denied, for anything else all.
func (h *Handler) count(checks []limiter.Check, o rule.Outcome, s limiter.Source) {
	for i := range checks {
		if o == rule.Denied && checks[i].Result.Passes() {
			continue
		}
		counters := h.counters[h.rules.RuleOf(&checks[i]).Index]
		counters.Count(o, s)
		if o == rule.Denied {
			counters.Top.Add(checks[i].Key.String())
		}
	}
}

// countBans counts the bans that a request began, and emits their events. A ban that a dry run begins is
// one: another handler with the policy enforces it.
func (h *Handler) countBans(checks []limiter.Check, s limiter.Source, dryRun bool) {
	for i := range checks {
		if c := &checks[i]; c.Result.BanBegins {
			h.counters[h.rules.RuleOf(c).Index].CountBan()
			h.events.banned(c, s, dryRun, h.LogKeys)
		}
	}
}

// dryRun decides the checks of dry-run policies: each by itself, so that none affects another, and
// together with those that are enforced, so that no request waits longer for them.
type dryRun struct {
	refusals []rule.DryRefusal
	blocks   []limiter.Check
	began    time.Time
	checks   []limiter.Check
	sources  []limiter.Source
	pending  sync.WaitGroup
}

// startDryRun begins to decide the dry-run checks; nil where there are none.
func (h *Handler) startDryRun(joined *decision, r *http.Request, stores *storepool.Stores, e *rule.Evaluation) *dryRun {
	checks := e.DryRun
	if len(checks)+len(e.DryRefusals)+len(e.DryBlocks) == 0 {
		return nil
	}
	d := &dryRun{refusals: e.DryRefusals, blocks: e.DryBlocks, began: time.Now(), checks: checks, sources: make([]limiter.Source, len(checks))}
	timedOut := joined.timedOut // before the enforced checks, which are decided meanwhile
	decide := func(i int) {
		source, err := decideOrFallback(r, stores, failover.FailLocal, checks[i:i+1:i+1], timedOut)
		if err == nil {
			d.sources[i] = source // stays empty if the client has left
		}
	}
	last := len(checks) - 1
	for i := range checks {
		if stores.Redis == nil || i == last && len(e.Enforced) == 0 {
			decide(i) // there is nothing to wait for beside it
		} else {
			d.pending.Go(func() { decide(i) })
		}
	}
	return d
}

// endDryRun waits for the checks, counts them and records those that would have denied.
func (h *Handler) endDryRun(d *dryRun, p *responseWriter) {
	if d == nil {
		return
	}
	d.pending.Wait()
	joined := p.decision
	for i := range d.refusals {
		h.countDryRefusal(joined, &d.refusals[i])
	}
	for i := range d.blocks {
		h.noteDryDenial(joined, &d.blocks[i])
		h.count(d.blocks[i:i+1], rule.DryDenied, rule.BlockSource(&d.blocks[i]))
	}
	if slices.Contains(d.sources, limiter.SourceFallback) && h.isTimeout(time.Since(d.began)) {
		joined.timedOut = true
	}
	for i := range d.checks {
		check := &d.checks[i]
		h.keepRunning(p, d.checks[i:i+1])
		if d.sources[i] == "" {
			continue
		}
		would := rule.DryAllowed
		if !check.Result.Passes() {
			would = rule.DryDenied
			h.noteDryDenial(joined, check)
		}
		h.follow(p, d.checks[i:i+1], d.sources[i], true)
		h.count(d.checks[i:i+1], would, d.sources[i])
		h.countBans(d.checks[i:i+1], d.sources[i], true)
	}
	if joined.outcome == "" {
		joined.outcome = rule.Allowed
	}
}

// noteDryDenial records a check of a dry-run rule that would have denied.
func (h *Handler) noteDryDenial(joined *decision, check *limiter.Check) {
	joined.wouldDeny(check.Policy.Name(), check.Result.Banned)
	if c := h.logger.Check(zap.DebugLevel, "request would be denied"); c != nil {
		c.Write(h.describe(check)...)
	}
}

// countDryRefusal counts a refusal by a dry-run rule. No store but this process is involved.
func (h *Handler) countDryRefusal(joined *decision, refusal *rule.DryRefusal) {
	policy := refusal.Rule.Policy.Name()
	joined.wouldDeny(policy, false)
	h.counters[refusal.Rule.Index].Count(rule.DryDenied, limiter.SourceMemory)
	if c := h.logger.Check(zap.DebugLevel, "request would be denied"); c != nil {
		c.Write(zap.String("policy", policy), zap.Error(refusal.Err))
	}
}

// wouldDeny records a dry-run policy that would have denied, and whether by a ban.
func (d *decision) wouldDeny(policy string, banned bool) {
	if banned {
		policy += ":banned"
	}
	if !slices.Contains(d.dryRun, policy) {
		d.dryRun = append(d.dryRun, policy)
	}
}

// dryRunText names the policies that would have denied.
func (d *decision) dryRunText() string { return strings.Join(d.dryRun, ",") }
