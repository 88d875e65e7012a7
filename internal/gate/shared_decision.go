package gate

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/quotaheader"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/refusal"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
)

// decision is what all handlers that a request has met have decided. It lives as long as the request.
type decision struct {
	outcome  rule.Outcome
	source   limiter.Source
	refusal  rule.Reason // of the last denial
	quotas   quotaheader.Quotas
	dryRun   []string      // the dry-run policies that would have denied, with ":banned" by a ban
	waited   time.Duration // for units of running requests, at the last handler where requests wait
	pass     string        // number of the first pass by which units were taken; empty: no units were taken by a pass
	shown    bool          // a handler sees the response and sets the headers
	timedOut bool          // the request has waited for Redis in vain, which it does once
	refused  bool          // a handler has refused the request since it was let through

	answered refusalAnswer // the last one
}

// decisionVar is the request variable that holds the decision.
const decisionVar = "redis_ratelimit.decision"

// String returns the outcome alone. Variables of requests can be written to logs, which must not show clients' keys.
func (d *decision) String() string { return string(d.outcome) }

// reason returns why the request is denied; empty if it is not.
func (d *decision) reason() rule.Reason {
	if d.outcome != rule.Denied {
		return ""
	}
	return d.refusal
}

// log adds the decision to the access log.
func (d *decision) log(r *http.Request) {
	if server, ok := r.Context().Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server); ok && server != nil && server.Logs == nil {
		return // the server has no access log
	}
	fields, ok := r.Context().Value(caddyhttp.ExtraLogFieldsCtxKey).(*caddyhttp.ExtraLogFields)
	if !ok {
		return
	}
	fields.Set(zap.String("ratelimit_decision", string(d.outcome)))
	if d.refusal != "" { // also if a handler in an error route decides after a denial
		fields.Set(zap.String("ratelimit_reason", string(d.reason())))
	}
	if len(d.dryRun) > 0 {
		fields.Set(zap.String("ratelimit_dry_run", d.dryRunText()))
	}
	if d.waited > 0 {
		fields.Set(zap.Duration("ratelimit_waited", d.waited))
	}
	if d.pass != "" {
		fields.Set(zap.String("ratelimit_pass", d.pass))
	}
	if binding := d.quotas.Binding(); binding != nil {
		fields.Set(zap.String("ratelimit_policy", binding.Policy.Name()))
	}
}

// placeholderPrefix begins the names of all placeholders.
const placeholderPrefix = "http.redis_ratelimit."

// placeholder returns the value of a {http.redis_ratelimit.*} placeholder; times are in seconds. The placeholders of a
// policy are empty if no store decided one.
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
	case "pass":
		return d.pass, true
	case "waited":
		return d.waited.Seconds(), true
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

// refusalAnswer is how a refusal was answered.
type refusalAnswer struct {
	form           *refusal.Form // nil: no refusal was
	written, meant int           // the status of the answer, and that of the refusal, which a protocol may answer with another one
}

// judgedStatus returns the status that count_if of handlers further out matches: that of the refusal where its form has
// another one, such as 200 in gRPC's.
func (d *decision) judgedStatus(status int, header http.Header) int {
	if a := &d.answered; a.written != a.meant && a.written == status && a.form.Wrote(header) {
		return a.meant
	}
	return status
}
