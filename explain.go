package redisratelimit

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/adminapi"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

// Decisions of an explanation besides those of requests.
const (
	explainedNone       = "none"
	explainedNotMatched = "not_matched"
	explainedSkipped    = "skipped"
	explainedRejected   = "rejected"
)

// newExplained makes the request that is to be explained.
func newExplained(ctx context.Context, e *adminapi.ExplainRequest) (*http.Request, error) {
	if e.Method == "" {
		e.Method = http.MethodGet
	}
	target, err := url.Parse(e.URL)
	if err != nil || e.URL == "" {
		return nil, badInput("url: use a URL such as https://example.com/search?q=x, or a path where only one server has limits")
	}
	client, err := netip.ParseAddr(e.ClientIP)
	if err != nil {
		return nil, badInput("client_ip: use an address such as 192.0.2.7")
	}
	r, err := http.NewRequestWithContext(ctx, e.Method, target.String(), http.NoBody)
	if err != nil {
		return nil, badInput("method or url: no request can be made of them")
	}
	for name, values := range e.Headers {
		for _, value := range values {
			r.Header.Add(name, value)
		}
	}
	if host := r.Header.Get("Host"); host != "" {
		r.Host = host
	}
	r.RequestURI = target.RequestURI()
	r.RemoteAddr = net.JoinHostPort(client.String(), "0")
	if target.Scheme == "https" {
		r.TLS = pretendedTLS(target.Hostname())
	}
	return r, nil
}

// explain tells what the handlers that a request meets would decide, and charges nothing.
func explain(servers map[string]*caddyhttp.Server, r *http.Request, clientIP string) (*adminapi.ExplainReport, error) {
	name, err := serverOf(servers, r)
	if err != nil {
		return nil, err
	}
	server := servers[name]
	course := newCourse(server.Routes, server.NamedRoutes)
	report := &adminapi.ExplainReport{Server: name, Decision: explainedNone, Policies: []adminapi.ExplainedPolicy{}, Skipped: course.skipped}
	walk := &walk{request: prepare(r, server, clientIP)}
	walk.meet = func(h *Handler, r *http.Request) (bool, error) { return h.explain(r, report) }
	if _, err := walk.run(course.routes); err != nil {
		return nil, badInput("the request cannot be matched: %v", err)
	}
	return report, nil
}

// prepare makes a request what Caddy's servers make of it, for a client whose address is known.
func prepare(r *http.Request, server *caddyhttp.Server, clientIP string) *http.Request {
	r = caddyhttp.PrepareRequest(r, caddy.NewReplacer(), new(nowhereWriter), server)
	caddyhttp.SetVar(r.Context(), caddyhttp.ClientIPVarKey, clientIP)
	return r
}

// pretendedTLS is what matchers see of a request by https.
func pretendedTLS(host string) *tls.ConnectionState {
	return &tls.ConnectionState{Version: tls.VersionTLS13, HandshakeComplete: true, ServerName: host}
}

// hasLimiter tells whether routes have a handler of this module.
func hasLimiter(routes []reducedRoute) bool {
	for i := range routes {
		for j := range routes[i].steps {
			if s := &routes[i].steps[j]; s.limiter != nil || hasLimiter(s.inside) {
				return true
			}
		}
	}
	return false
}

// explain adds what this handler would decide, and tells whether the request would go on.
func (h *Handler) explain(r *http.Request, report *adminapi.ExplainReport) (goesOn bool, err error) {
	repl, _ := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if h.isExempt(r) {
		report.Decision = string(outcomeExempt)
		return true, nil
	}
	checks, dry, err := h.checks(nil, r, repl)
	rejected := errors.Is(err, errEmptyKey)
	if err != nil && !rejected {
		return false, err
	}
	goesOn = !rejected
	for i := range h.rules {
		rule := &h.rules[i]
		own := checks
		if rule.dryRun {
			own = dry
		}
		explained, passes := h.explainRule(rule, r, repl, own, report)
		report.Policies = append(report.Policies, explained)
		goesOn = goesOn && (passes || rule.dryRun)
	}
	switch {
	case rejected:
		report.Decision = explainedRejected
	case !goesOn:
		report.Decision = string(outcomeDenied)
	case len(checks) > 0 || report.Decision == explainedNone && len(dry) > 0:
		report.Decision = string(outcomeAllowed)
	}
	return goesOn, nil
}

// explainRule tells what one rule would decide, by the check that it is part of.
func (h *Handler) explainRule(rule *rule, r *http.Request, repl *caddy.Replacer, checks []limiter.Check, report *adminapi.ExplainReport) (explained adminapi.ExplainedPolicy, passes bool) {
	explained = adminapi.ExplainedPolicy{Policy: rule.policy.Name(), DryRun: rule.dryRun}
	key, met, err := h.keyOf(rule, r, repl)
	switch {
	case err != nil:
		explained.Decision = explainedRejected
		return explained, true
	case met == ruleNotMatched:
		explained.Decision = explainedNotMatched
		return explained, true
	case met == ruleLeftOut:
		explained.Decision = explainedSkipped
		return explained, true
	}
	explained.Key = adminapi.KeyText(key)
	at := slices.IndexFunc(checks, func(c limiter.Check) bool { return c.Key == key && c.Policy.ID() == rule.policy.ID() })
	if at < 0 { // another rule's empty key has the request refused
		explained.Decision = explainedSkipped
		return explained, true
	}
	check := checks[at]
	source, err := h.app.guard.Look(r.Context(), &check)
	if err != nil {
		report.Error = unavailableText(err)
		if h.FailMode != limiter.FailLocal {
			explained.Decision, explained.Weight = h.undecidedText(), check.Weight
			return explained, h.FailMode == limiter.FailOpen
		}
	}
	explained.Weight, explained.Source = check.Weight, string(source)
	explained.ShareReport = shareOf(&check)
	explained.Decision = string(outcomeAllowed)
	if !check.Result.Passes() {
		explained.Decision = string(outcomeDenied)
	}
	return explained, check.Result.Passes()
}

// undecidedText is the decision on a request that Redis cannot decide.
func (h *Handler) undecidedText() string {
	if h.FailMode == limiter.FailOpen {
		return string(outcomeFailedOpen)
	}
	return string(outcomeFailedClosed)
}

// unavailableText says why Redis could not be asked.
func unavailableText(err error) string {
	return strings.TrimPrefix(err.Error(), limiter.ErrUndecided.Error()+": ")
}

// shareOf is what a look has found.
func shareOf(c *limiter.Check) adminapi.ShareReport {
	report := adminapi.ShareReport{
		Limit: c.Policy.Capacity(), Remaining: c.Result.Remaining,
		RetryAfter: secondsOf(c.Result.RetryAfter), ResetAfter: secondsOf(c.Result.ResetAfter),
	}
	if c.Result.RetryAfter == limiter.Never {
		report.RetryAfter = -1
	}
	return report
}

// secondsOf is a duration in seconds, to the microsecond.
func secondsOf(d time.Duration) float64 { return float64(d.Microseconds()) / 1e6 }
