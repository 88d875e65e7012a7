package redisratelimit

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/display"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/options"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/routetrace"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
)

// describedPolicies describes the policies by their names, with their handlers in the order of the routes. Handlers in routes of
// other modules come last.
func (a *App) describedPolicies() map[string]*display.PolicyDescription {
	policies, placed := map[string]*display.PolicyDescription{}, map[*rule.Set]bool{}
	for handler, site := range routetrace.Handlers(a.routes()) {
		if h, ok := handler.(*Handler); ok {
			placed[h.limiter.Rules] = true
			describeAt(policies, h.limiter.Rules, site.String())
		}
	}
	for _, set := range a.rules {
		if !placed[set] {
			describeAt(policies, set, "")
		}
	}
	if a.opened.Options == nil {
		for _, p := range policies {
			p.Lease = nil // without Redis there is no lease
		}
	}
	return policies
}

// describeAt adds the policies of a handler at a place.
func describeAt(policies map[string]*display.PolicyDescription, set *rule.Set, place string) {
	for i := range set.Rules {
		r := &set.Rules[i]
		p := policies[r.Policy.Name()]
		if p == nil {
			p = new(r.Describe())
			policies[p.Name] = p
		} else {
			p.Handlers = append(p.Handlers, r.Describe().Handlers...)
		}
		p.Handlers[len(p.Handlers)-1].Place = place
	}
}

// logWarnings logs warnings of what the app's configuration hardly means.
func (a *App) logWarnings() {
	warnings := routetrace.Warnings(a.routes())
	for _, text := range a.crawlers.warnings() {
		warnings = append(warnings, routetrace.Warning{Place: "the global option " + options.AppName, Text: text})
	}
	for _, name := range a.elsewhere.Unknown {
		for _, place := range routetrace.PlacesOf(name, a.routes()) {
			warnings = append(warnings, routetrace.Warning{Place: place, Text: options.UnknownPlaceholder(name)})
		}
	}
	noticed.logValidated(pool.Warnings.Watch(a.logger), warnings)
}

// wasValidated reports whether the app is cleaned up because its configuration was validated, and is not to be started:
// Caddy then calls nothing else once all routes are set up.
func (a *App) wasValidated() bool {
	const causeOfCaddy = "validation complete"
	cause := context.Cause(a.ctx)
	return cause != nil && cause.Error() == causeOfCaddy
}

// WarningSubject implements [routetrace.Warnable].
func (h *Handler) WarningSubject() *routetrace.Subject {
	s := &routetrace.Subject{Usage: h.Usage, JSON: h.configured, Unnamed: h.HasUnnamed(), ByClient: h.limiter.Rules.GoesByClient() || h.limiter.Crawlers != nil}
	for _, p := range h.Policies {
		s.Alone = append(s.Alone, p.Warnings()...)
	}
	for i := range h.limiter.Rules.Rules {
		r := &h.limiter.Rules.Rules[i]
		if r.Wait.Longest > 0 {
			s.Waiter = &routetrace.Waiter{Policy: r.Policy.Name(), Key: r.Texts.Key, Match: r.Match}
			s.Alone = append(s.Alone, h.waitWarnings(r)...)
		}
		if r.Policy.CountsRunning {
			s.Places = append(s.Places, routetrace.PlacePolicy{
				Policy: r.Policy.Name(), Keyless: r.Texts.IsKeyless, Shared: r.Key.IsFixed(), By: r.Texts.Turns, Match: r.Match,
			})
		}
		if r.Opens {
			s.Opening = routetrace.AppendNew(s.Opening, r.Policy.Name())
		}
		if r.DryRun {
			s.DryRuns = routetrace.AppendNew(s.DryRuns, r.Policy.Name())
		}
		if r.CountIf != nil && r.CountIf.Match(http.StatusForbidden, nil) {
			s.CountingForbidden = routetrace.AppendNew(s.CountingForbidden, r.Policy.Name())
		}
		if r.CountIf != nil || r.Policy.Bans() {
			s.Guards = append(s.Guards, routetrace.Guard{
				Policy: r.Policy.Name(), CountsFailures: r.CountIf != nil, Match: r.Match,
				CountsUnauthorized: r.CountIf != nil && r.CountIf.Match(http.StatusUnauthorized, nil),
			})
		}
		for _, header := range r.Key.FoldedHeaders() {
			s.Folded = append(s.Folded, routetrace.FoldedHeader{Policy: r.Policy.Name(), Name: header})
		}
		for _, header := range r.RequestHeaders() {
			if !slices.Contains(options.ClientHeaders, header) { // of which the policy warns
				s.Headers = routetrace.AppendNew(s.Headers, header)
			}
		}
		s.Placeholders = routetrace.AppendNew(s.Placeholders, append(r.Placeholders(), routetrace.MatchedPlaceholders(slices.Concat(r.Match, r.Count))...)...)
		for _, name := range s.Placeholders {
			if text := options.UnknownPlaceholder(name); text != "" {
				s.Alone = routetrace.AppendNew(s.Alone, text)
			}
		}
		s.Matches = append(s.Matches, r.Match)
		if r.Key.ReadsBody() && !r.DryRun && r.OnEmptyKey == rule.EmptyKeyReject && !routetrace.Narrows(r.Match) {
			s.Rejecting = routetrace.AppendNew(s.Rejecting, r.Policy.Name())
		}
	}
	slices.Sort(s.Headers)
	return s
}

// waitWarnings returns what is wrong with a rule whose requests wait, as far as the handler's other options tell.
func (h *Handler) waitWarnings(r *rule.Rule) []string {
	if h.FailMode != limiter.FailOpen || h.app.opened.Redis == nil {
		return nil
	}
	return []string{fmt.Sprintf("policy %q: by fail_mode open all requests that wait start at once when Redis fails; "+
		"write fail_mode local, by which each node goes on by turns", r.Policy.Name())}
}
