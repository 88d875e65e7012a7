package gate

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/answer"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// sharedDecision is what header fields, placeholders and the access log show of the [Decision] of each handler that a request has
// met: the last outcome and source, and the quota that binds over all handlers. It lives as long as the request.
type sharedDecision struct {
	outcome  limiter.Outcome // empty: no handler has decided
	source   limiter.Source
	quotas   answer.Quotas
	refusal  *sharedRefusal // nil: no handler has refused the request
	rare     *sharedRare    // nil: the request has nothing of it
	shown    bool           // a handler sees the response and sets the headers
	timedOut bool           // the request has waited for Redis in vain, which it does once
	refused  bool           // a handler has refused the request since it was let through
	answered uint16         // the status that a handler has answered with since then: a refusal, quotas, a challenge; 0: no handler has
}

// sharedRefusal is what a refused request has: why, how it was answered, and memory for the answer.
type sharedRefusal struct {
	reason   limiter.Reason // of the last denial
	needed   int64          // units, by the last denial if a lighter request would pass; otherwise 0
	answered refusalAnswer  // the last one
	values   answer.RefusalValues
	ofAnswer answer.FormValues
}

// refusedDecision carries the shared decision of a request that is refused at once in one allocation with all that the answer
// needs, as TestRequest_memory holds.
type refusedDecision struct {
	decision sharedDecision
	refusal  sharedRefusal
	values   answer.QuotaValues
}

// ofRefusal returns what a refused request has, to be changed.
func (d *sharedDecision) ofRefusal() *sharedRefusal {
	if d.refusal == nil {
		d.refusal = new(sharedRefusal)
	}
	return d.refusal
}

// sharedRare is what few requests have.
type sharedRare struct {
	dryRun []string      // the dry-run policies that would have denied, with ":banned" by a ban
	waited time.Duration // for units of running requests, at the last handler where requests wait
	held   time.Duration // for these and by queues, at all handlers
	pass   string        // number of the first pass by which units were taken; empty: no units were taken by a pass
}

// noRare is the sharedRare of requests that have nothing of it. It is never changed.
var noRare sharedRare

// few returns what few requests have, to be read.
func (d *sharedDecision) few() *sharedRare {
	if d.rare == nil {
		return &noRare
	}
	return d.rare
}

// addRare returns what few requests have, to be changed.
func (d *sharedDecision) addRare() *sharedRare {
	if d.rare == nil {
		d.rare = new(sharedRare)
	}
	return d.rare
}

// decisionVar is the request variable that holds the decision.
const decisionVar = "redis_ratelimit.decision"

// String returns the outcome alone. Variables of requests can be written to logs, which must not show clients' keys.
func (d *sharedDecision) String() string { return string(d.outcome) }

// reason returns why the request is denied; empty if it is not.
func (d *sharedDecision) reason() limiter.Reason {
	if d.outcome != limiter.OutcomeDenied || d.refusal == nil {
		return ""
	}
	return d.refusal.reason
}

// logFields returns the fields of the access log of a request; nil if there is no access log.
func (s *ownServer) logFields(r *http.Request) *caddyhttp.ExtraLogFields {
	if s.isUnlogged.Load() {
		return nil
	}
	if server, ok := r.Context().Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server); ok && server != nil && server.Logs == nil {
		s.isUnlogged.Store(true)
		return nil
	}
	fields, _ := r.Context().Value(caddyhttp.ExtraLogFieldsCtxKey).(*caddyhttp.ExtraLogFields)
	return fields
}

// log adds the decision to the access log.
func (d *sharedDecision) log(fields *caddyhttp.ExtraLogFields) {
	fields.Set(zap.String("ratelimit_decision", string(d.outcome)))
	if d.refusal != nil && d.refusal.reason != "" { // also if a handler in an error route decides after a denial
		fields.Set(zap.String("ratelimit_reason", string(d.reason())))
	}
	rare := d.few()
	if len(rare.dryRun) > 0 {
		fields.Set(zap.String("ratelimit_dry_run", d.dryRunText()))
	}
	d.logWaited(fields)
	if rare.pass != "" {
		fields.Set(zap.String("ratelimit_pass", rare.pass))
	}
	if binding, known := d.quotas.Binding(); known {
		fields.Set(zap.String("ratelimit_policy", binding.Policy.Name()))
	}
}

// logWaited adds to the access log how long the request has waited, which it has even if nothing was decided because its client
// has left.
func (d *sharedDecision) logWaited(fields *caddyhttp.ExtraLogFields) {
	if waited := d.few().waited; waited > 0 {
		fields.Set(zap.Duration("ratelimit_waited", waited))
	}
}

// placeholderPrefix begins the names of all placeholders.
const placeholderPrefix = "http.redis_ratelimit."

// The names of placeholders behind that: of decisions, and of the quota that binds.
var (
	decisionNames = []string{"decision", "reason", "source", "dry_run", "pass", "waited"}
	quotaNames    = []string{"policy", "limit", "remaining", "retry_after", "reset_after", "left", "needed"}
)

// PlaceholderNames returns the names of the placeholders of decisions.
func PlaceholderNames() (names []string) {
	for _, name := range slices.Concat(decisionNames, quotaNames) {
		names = append(names, placeholderPrefix+name)
	}
	return names
}

// placeholder returns the value of a {http.redis_ratelimit.*} placeholder; times are in seconds. The placeholders of a
// policy are empty if no store decided one.
func (d *sharedDecision) placeholder(name string) (any, bool) {
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
		return d.few().pass, true
	case "waited":
		return d.few().waited.Seconds(), true
	}
	binding, known := d.quotas.Binding()
	if !known {
		return nil, slices.Contains(quotaNames, name)
	}
	switch name {
	case "policy":
		return binding.Policy.Name(), true
	case "limit":
		return binding.Policy.Capacity(), true
	case "remaining":
		return binding.Result.Remaining, true
	case "retry_after":
		return answer.Seconds(binding.Result.RetryAfter), true
	case "reset_after":
		return answer.Seconds(binding.Result.ResetAfter), true
	case "left", "needed":
		return d.lack(name, &binding), true
	}
	return nil, false
}

// lack returns what is left, or what the request needed, by the policy that binds; nil if it is not denied for its weight.
func (d *sharedDecision) lack(name string, binding *limiter.Check) any {
	switch {
	case d.reason() == "" || d.refusal.needed == 0:
		return nil
	case name == "left":
		return binding.Result.Remaining
	}
	return d.refusal.needed
}

// wouldDeny records a dry-run policy that would have denied, and whether by a ban.
func (d *sharedDecision) wouldDeny(policy string, banned bool) {
	if banned {
		policy += ":banned"
	}
	if rare := d.addRare(); !slices.Contains(rare.dryRun, policy) {
		rare.dryRun = append(rare.dryRun, policy)
	}
}

// dryRunText names the policies that would have denied.
func (d *sharedDecision) dryRunText() string { return strings.Join(d.few().dryRun, ",") }

// refusalAnswer is how a refusal was answered.
type refusalAnswer struct {
	form           *answer.Form // nil: no refusal was
	written, meant int          // the status of the answer, and the status of the refusal, which a protocol may answer with another one
}

// judgedStatus returns the status that count_if of handlers further out matches: the status of the refusal where its form has
// another one, such as 200 in gRPC's.
func (d *sharedDecision) judgedStatus(status int, header http.Header) int {
	if d.refusal == nil {
		return status
	}
	if a := &d.refusal.answered; a.written != a.meant && a.written == status && a.form.Wrote(header) {
		return a.meant
	}
	return status
}
