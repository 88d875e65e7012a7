package gate

import (
	"net/http"
	"slices"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/challenge"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
)

// browser returns the client of a request, as challenges see it.
func (l *Limiter) browser(r *http.Request) challenge.Browser {
	address, _ := caddyhttp.GetVar(r.Context(), caddyhttp.ClientIPVarKey).(string)
	return l.Challenges.Browser(r, address)
}

// goesOnceVar is the request variable that is set where the request goes on for the one page of a browser without cookies.
const goesOnceVar = "redis_ratelimit.goes_once"

// goesOnce reports whether a handler has let a request go on that brings a ticket.
func goesOnce(r *http.Request) bool { return caddyhttp.GetVar(r.Context(), goesOnceVar) != nil }

// passOf returns what a request has by its browser's wait, which may be one that goes on with its ticket.
func (l *Limiter) passOf(r *http.Request, once bool) rule.Pass {
	browser := l.browser(r)
	switch number, standing := browser.Pass(); {
	case standing == challenge.Proven:
		return rule.Pass{Number: number, Standing: rule.Proven}
	case standing == challenge.Waited:
		return rule.Pass{Number: number, Standing: rule.Waited}
	case standing == challenge.Late && !isNavigation(r):
		return rule.Pass{Standing: rule.Late}
	case once:
		return rule.Pass{Standing: rule.Cookieless}
	}
	return rule.Pass{}
}

// RedeemToken answers a request of a page that waits: with a pass for the ticket of a browser that has waited, or with the
// page's style sheet. It asks no store and charges nothing. A request that goes on, for one page, is returned with the writer
// of its response, to be evaluated again; otherwise the request is nil. A request whose client has left meanwhile is a refusal.
func (x *Exchange) RedeemToken() (http.ResponseWriter, *http.Request, error) {
	browser := x.limiter.browser(x.request)
	_, target := originalRequest(x.request)
	x.decisionOf()
	if early := browser.Early(target); early > 0 && x.limiter.Process.Held.Enter() {
		err := hold(x.request.Context(), early)
		x.limiter.Process.Held.Leave()
		if err != nil {
			return nil, nil, err
		}
		browser.HasWaited()
	}
	outcome, err := browser.Exchange(answerWriter{x.ResponseWriter, x.noteAnswer}, target, x.limiter.look(nil))
	x.challenged(outcome)
	if outcome != challenge.Cookieless {
		return nil, nil, err
	}
	return newPrivateWriter(x.ResponseWriter), goingOnce(x.request), nil
}

// goingOnce has a request go on without the ticket that it brings.
func goingOnce(r *http.Request) *http.Request {
	caddyhttp.SetVar(r.Context(), goesOnceVar, true)
	r.URL.RawQuery = challenge.CutToken(r.URL.RawQuery)
	r.RequestURI = r.URL.RequestURI()
	return r
}

// challenged counts and logs what became of a challenge.
func (x *Exchange) challenged(o challenge.Result) {
	x.limiter.Process.Challenged(o)
	if fields := x.limiter.server.logFields(x.request); fields != nil {
		fields.Set(zap.String("ratelimit_challenge", string(o)))
	}
}

// isNavigation reports whether a person sees the answer of a request.
func isNavigation(r *http.Request) bool {
	method, _ := originalRequest(r)
	return challenge.IsNavigation(method, r.Header)
}

// MayWait reports whether a browser that is denied may be shown the page that waits: a wait helps with each check that
// denies.
func (l *Limiter) MayWait(made *Decision, pass rule.Pass) bool {
	if !l.challenges {
		return false
	}
	may := false
	for i := range made.Checks {
		if made.Checks[i].Result.Passes() {
			continue
		}
		if may = l.waitHelps(made.Checks[i:i+1], made.Source, pass); !may {
			return false
		}
	}
	return may && l.Challenges.Ready()
}

// waitHelps reports whether a wait helps with a check that a source denies: the client's key has another pass, as the quota is
// used up for a while; or the pass opens what is reserved.
func (l *Limiter) waitHelps(denied []limiter.Check, source limiter.Source, pass rule.Pass) bool {
	r, reason := l.Rules.RuleOf(&denied[0]), limiter.ReasonOf(denied, source)
	if r.Opens {
		return reason == limiter.ReasonReserve && pass.MayOpen()
	}
	others := r.Challenge.Passes
	if pass.HasPass() {
		others--
	}
	return others > 0 && reason == limiter.ReasonLimit && denied[0].Result.RetryAfter != limiter.Never
}

// look returns how the page looks that waits for checks that deny; without any, the first page of the handler.
func (l *Limiter) look(checks []limiter.Check) challenge.Look {
	look := challenge.Look{Status: l.Status}
	for i := range l.Rules.Rules {
		r := &l.Rules.Rules[i]
		denies := func(c limiter.Check) bool { return !c.Result.Passes() && l.Rules.RuleOf(&c) == r }
		if !r.Challenges() || checks != nil && !slices.ContainsFunc(checks, denies) {
			continue
		}
		if look.Proven = look.Proven || r.Opens; look.Own == nil && i < len(l.Pages) {
			look.Own = l.Pages[i]
		}
	}
	return look
}

// showPage answers a denied request with the page that waits. The ticket of the page has another number than the pass
// that is used up.
func (x *Exchange) showPage(made *Decision) error {
	l := x.limiter
	x.challenged(challenge.Shown)
	x.showQuotas()
	browser := l.browser(x.request)
	_, wanted := originalRequest(x.request)
	query := challenge.CutToken(wanted.RawQuery) // of a request that goes on for one page
	return browser.Page(answerWriter{x.ResponseWriter, x.noteAnswer}, query, l.look(made.Checks), func(number uint16) bool {
		return !made.pass.HasPass() || !slices.ContainsFunc(made.Checks, func(c limiter.Check) bool {
			passes := l.Rules.RuleOf(&c).Challenge
			return !c.Result.Passes() && passes.Passes > 0 && passes.Of(made.pass) == passes.Of(rule.Pass{Number: number})
		})
	})
}
