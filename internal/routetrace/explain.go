package routetrace

import (
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/adminapi"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/crawlers"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/display"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/gate"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/overrides"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
)

// Decisions of an explanation besides the outcomes of requests.
const (
	decisionNone      = "none"
	decisionUsage     = "usage"
	decisionChallenge = "challenge"
	decisionSkipped   = "skipped"
	decisionWaits     = "waits"
)

// decisions are those of rules that no store is asked for.
var decisions = map[rule.Status]string{
	rule.Rejected: string(limiter.OutcomeRejected), rule.NotMatched: "not_matched", rule.Skipped: decisionSkipped,
	rule.Exempted: string(limiter.OutcomeExempt), rule.Unlimited: string(limiter.OutcomeUnlimited),
}

// explanation is what is found out about a request on its way.
type explanation struct {
	report  *adminapi.ExplainReport
	charged []limiter.Check // by the limiters that the request has passed
}

// Explain reports what the limiters that a request meets would decide. The servers are provisioned. An
// error of [adminapi.BadInput] says what is wrong with the request.
func Explain(trees map[string]*Tree, r *http.Request, clientIP string) (*adminapi.ExplainReport, error) {
	name, err := serverOf(trees, r)
	if err != nil {
		return nil, err
	}
	server := trees[name].server
	e := &explanation{report: &adminapi.ExplainReport{Server: name, ClientIP: clientIP, Decision: decisionNone,
		Policies: []adminapi.ExplainedPolicy{}}}
	tracer := &Tracer{OnLimiter: e.onLimiter}
	filter := NewHeaderFilter(server)
	r.Header = filter.Filter(r.Header)
	switch _, err := tracer.Run(trees[name], Prepare(r, server, clientIP)); {
	case errors.Is(err, errDataEnds):
		return nil, adminapi.BadInput("%w, of which a question has at most %d bytes", errDataEnds, adminapi.MaxData)
	case err != nil:
		return nil, adminapi.BadInput("the request cannot be matched: %v", err)
	}
	e.report.Skipped = tracer.Skipped
	return e.report, nil
}

// onLimiter adds what a limiter would decide, and reports whether the request would go on.
func (e *explanation) onLimiter(limiting Limiting, r *http.Request) (goesOn bool, err error) {
	repl, _ := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	var evaluation rule.Evaluation
	var findings []rule.Finding
	evaluation.OnFinding = func(f rule.Finding) { findings = append(findings, f) }
	l, unusable := collectUnusable(limiting.RateLimiter())
	noBody := false
	if l.Rules.ReadsBody() {
		body := l.BeginBody(new(DiscardWriter), r, repl)
		defer body.GiveBack()
		defer body.End()
		evaluation.Body, noBody = body, body.IsAbsent()
	}
	if l.Crawlers != nil {
		identity := l.Crawlers.IdentifyWithin(r, repl, crawlerWait)
		evaluation.Crawler, e.report.Crawler = identity.Crawler(), explainCrawler(identity)
	}
	action, err := l.Evaluate(r, repl, &evaluation)
	if err != nil && !rule.IsRefusal(err) || errors.Is(err, errDataEnds) {
		return false, err
	}
	var peeks []peek
	if action == gate.Limited {
		peeks = e.peekAll(r, l, &evaluation)
	}
	for i := range findings {
		f := &findings[i]
		explained := explainRule(f, peeks)
		explained.Unusable, explained.NoBody = unusable[f.Rule], noBody && f.AsksForBody()
		e.report.Policies = append(e.report.Policies, explained)
	}
	goesOn = e.record(peeks)
	if enforced := denied(peeks); !goesOn && r.Method == http.MethodGet && l.MayWait(&enforced, evaluation.Pass) {
		e.report.Page = true
	}
	switch {
	case action == gate.ReturnsFromChallenge:
		e.report.Decision, goesOn = decisionChallenge, false
	case action == gate.AsksUsage:
		e.report.Decision, goesOn = decisionUsage, false
	case action == gate.Refused:
		var refusal caddyhttp.HandlerError
		if errors.As(err, &refusal) {
			e.report.Status = refusal.StatusCode
		}
		e.report.Decision, goesOn = string(limiter.OutcomeRejected), false
	case action == gate.Exempt:
		e.report.Decision = string(limiter.OutcomeExempt)
	case !goesOn:
		e.report.Decision = string(limiter.OutcomeDenied)
	case e.report.Decision == decisionWaits || slices.ContainsFunc(peeks, func(p peek) bool { return p.waits }):
		e.report.Decision = decisionWaits
	case len(evaluation.Enforced) > 0 || e.report.Decision == decisionNone && action == gate.Limited:
		e.report.Decision = string(limiter.OutcomeAllowed)
	}
	return goesOn, nil
}

// crawlerWait is how long an explanation waits for the DNS.
const crawlerWait = 2 * time.Second

// explainCrawler explains the sender of a request that claims a crawler; nil: it claims none.
func explainCrawler(i crawlers.Identity) *adminapi.ExplainedCrawler {
	if i.Status() == crawlers.Unclaimed {
		return nil
	}
	return &adminapi.ExplainedCrawler{Name: i.Claimed(), Status: i.Status().String(), By: i.By()}
}

// denied returns the decision of the checks that deny the request; one without checks where the fail mode decides.
func denied(peeks []peek) (d gate.Decision) {
	for i := range peeks {
		p := &peeks[i]
		if p.DryRun || p.Outcome == limiter.OutcomeAllowed {
			continue
		}
		if p.undecided() {
			return gate.Decision{}
		}
		d.Checks = append(d.Checks, *p.check)
		if p.Source == limiter.SourceOverride {
			d.Source = p.Source
		}
	}
	return d
}

// record records what a limiter would have charged and why Redis was not asked, and reports whether the
// request would go on.
func (e *explanation) record(peeks []peek) (goesOn bool) {
	goesOn = true
	for i := range peeks {
		p := &peeks[i]
		if p.err != nil {
			e.report.Error = adminapi.UnavailableText(p.err)
		}
		goesOn = goesOn && (p.DryRun || p.goesOn())
	}
	for i := range peeks {
		if p := &peeks[i]; (p.DryRun && p.goesOn()) || (!p.DryRun && goesOn) {
			e.charged = append(e.charged, *p.check)
		}
	}
	return goesOn
}

// explainRule explains one rule, by the peek that it is part of. Where another rule refuses the request
// there is none.
func explainRule(f *rule.Finding, peeks []peek) adminapi.ExplainedPolicy {
	explained := adminapi.ExplainedPolicy{
		Policy: f.Rule.Policy.Name(), Settings: f.Rule.Describe(), DryRun: f.DryRun, Decision: decisionSkipped,
		Key: display.EscapeKey(f.Key.String()), Override: Override(f.Override),
	}
	if decision, found := decisions[f.Status]; found {
		explained.Decision, explained.Reason = decision, rule.RefusalLabel(f.Err)
		return explained
	}
	for i := range peeks {
		p := &peeks[i]
		if p.DryRun != f.DryRun || p.check.Policy.Name() != f.Rule.Policy.Name() || p.check.Key != f.Key {
			continue
		}
		explained.Decision, explained.Weight, explained.Reserve = p.decision(), p.check.Weight, p.check.Reserve
		explained.Turn, explained.Look = p.turn, p.look
		explained.Cost = f.Rule.Texts.Cost
		if p.Source != limiter.SourceMemory {
			explained.Lease = Seconds(p.check.Policy.LongestLease())
		}
		if !p.undecided() {
			if explained.Decision == string(limiter.OutcomeDenied) {
				explained.Reason = string(limiter.ReasonOf(p.Checks, p.Source)) // also where as many wait as may
			}
			explained.Source, explained.QuotaReport = string(p.Source), Quota(p.check.Policy, p.check.Result)
		}
	}
	return explained
}

// collectUnusable returns a copy of a limiter that collects, by rule, the values that it cannot use, instead of counting
// and logging them.
func collectUnusable(l *gate.Limiter) (*gate.Limiter, map[*rule.Rule][]adminapi.UnusableValue) {
	unusable := map[*rule.Rule][]adminapi.UnusableValue{}
	rules := *l.Rules
	rules.Warn = func(r *rule.Rule, option string, err error) {
		value := adminapi.UnusableValue{Option: option, Reason: rule.ReasonLabel(err), Text: rule.UnreadText(err)}
		if !slices.Contains(unusable[r], value) {
			unusable[r] = append(unusable[r], value)
		}
	}
	rules.OnNewlyUnreadable = nil // which tells of requests of clients
	explained := *l
	explained.Rules = &rules
	return &explained, unusable
}

// Quota reports what a peek found.
func Quota(p *limiter.Policy, found limiter.Result) adminapi.QuotaReport {
	report := adminapi.QuotaReport{
		Limit: p.Capacity(), Remaining: found.Remaining,
		RetryAfter: Seconds(found.RetryAfter), ResetAfter: Seconds(found.ResetAfter), Banned: Seconds(found.BanLeft),
	}
	if found.RetryAfter == limiter.Never {
		report.RetryAfter = -1
	}
	if found.ResetAfter == limiter.Never {
		report.ResetAfter = -1
	}
	return report
}

// Seconds is a duration in seconds, to the microsecond.
func Seconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1e6 }

// Override reports an override; nil for none.
func Override(e *overrides.Entry) *adminapi.OverrideEntry {
	if e == nil {
		return nil
	}
	entry := &adminapi.OverrideEntry{
		Policy: e.Target.Policy, All: e.All(), Limit: e.Limit, Burst: e.Burst,
		Block: e.Action == overrides.Block, Exempt: e.Action == overrides.Exempt,
		Note: e.Note, NodeOnly: e.NodeOnly,
	}
	switch {
	case e.Everywhere() && e.Range.IsSingleIP():
		entry.Key = new(e.Range.Addr().String())
	case e.Range.IsValid():
		entry.Range = e.Range.String()
	case !e.All():
		entry.Key = new(display.EscapeKey(e.Key().String()))
	}
	if !e.Until.IsZero() {
		entry.Until = new(e.Until.UTC())
	}
	return entry
}
