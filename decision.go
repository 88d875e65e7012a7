package redisratelimit

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

// outcome is what became of a request: the value of {http.redis_ratelimit.decision}.
type outcome string

const (
	outcomeAllowed      outcome = "allowed"
	outcomeDenied       outcome = "denied"
	outcomeFailedOpen   outcome = "failed_open"
	outcomeFailedClosed outcome = "failed_closed"
	outcomeExempt       outcome = "exempt"

	// What dry-run policies would have done; only metrics show these.
	outcomeDryAllowed outcome = "dry_run_allowed"
	outcomeDryDenied  outcome = "dry_run_denied"
)

// decision is what all handlers that a request met have decided about it. It lives as long as the
// request.
type decision struct {
	outcome  outcome
	source   limiter.Source
	statuses []quotaStatus     // that were decided, in the order that they were met in
	binding  *quotaStatus      // the one of them that binds; nil: none was decided
	shown    *quotaStatus      // the one that binds of those that X-RateLimit headers may show
	dryRun   []string          // the dry-run policies that would have denied
	values   [3]string         // of the headers
	serving  bool              // a handler sees to the response and sets the headers
	timedOut bool              // Redis was waited for in vain, which is not done twice
	space    [6]quotaStatus    // where shares are, for as long as there is room
	places   map[shareName]int // of shares beyond the first few
}

// decisionVar is the request variable that handlers of one request find the decision in.
const decisionVar = "redis_ratelimit.decision"

// join makes a new decision the request's, or returns the one that an earlier handler has made.
func (d *decision) join(r *http.Request, repl *caddy.Replacer) *decision {
	if earlier, ok := caddyhttp.GetVar(r.Context(), decisionVar).(*decision); ok {
		return earlier
	}
	caddyhttp.SetVar(r.Context(), decisionVar, d)
	if repl != nil {
		repl.Map(d.placeholder)
	}
	return d
}

// String is the outcome alone. Requests' variables can be written to logs, where clients' keys must
// not get.
func (d *decision) String() string { return string(d.outcome) }

// add merges what one more handler decided. A denial ends the request, so that the last word is
// the outcome; the headers speak for the policy that binds most over all.
func (d *decision) add(checks []limiter.Check, source limiter.Source, f formats) {
	d.outcome, d.source = outcomeAllowed, source
	if !limiter.Allowed(checks) {
		d.outcome = outcomeDenied
	}
	if d.statuses == nil {
		d.statuses = d.space[:0]
	}
	now := time.Now()
	for i := range checks {
		d.record(&checks[i], f, now)
	}
	d.bind()
}

// fail records that this handler's policies could not be decided.
func (d *decision) fail(o outcome) { d.outcome, d.source = o, limiter.SourceRedis }

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
	if len(d.dryRun) > 0 {
		fields.Set(zap.String("ratelimit_dry_run", d.dryRunText()))
	}
	if d.binding != nil {
		fields.Set(zap.String("ratelimit_policy", d.binding.Policy.Name()))
	}
}

// placeholderPrefix begins the names of all placeholders.
const placeholderPrefix = "http.redis_ratelimit."

// placeholder is the value of a {http.redis_ratelimit.*} placeholder: times in seconds. Where no
// policy was decided, those that tell of one are empty.
func (d *decision) placeholder(name string) (any, bool) {
	name, ok := strings.CutPrefix(name, placeholderPrefix)
	if !ok {
		return nil, false
	}
	switch name {
	case "decision":
		return string(d.outcome), true
	case "source":
		return string(d.source), true
	case "dry_run":
		return d.dryRunText(), true
	}
	if d.binding == nil {
		return nil, slices.Contains([]string{"policy", "limit", "remaining", "retry_after", "reset_after"}, name)
	}
	switch name {
	case "policy":
		return d.binding.Policy.Name(), true
	case "limit":
		return d.binding.Policy.Capacity(), true
	case "remaining":
		return d.binding.Result.Remaining, true
	case "retry_after":
		return seconds(d.binding.Result.RetryAfter), true
	case "reset_after":
		return seconds(d.binding.Result.ResetAfter), true
	}
	return nil, false
}

// seconds writes a duration in seconds, with as many decimals as it has; -1 is never.
func seconds(d time.Duration) string {
	if d == limiter.Never {
		return "-1"
	}
	text := fmt.Sprintf("%d.%06d", d/time.Second, d%time.Second/time.Microsecond)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

// ceilSeconds rounds up to whole seconds.
func ceilSeconds(d time.Duration) int64 {
	return int64((d + time.Second - 1) / time.Second)
}
