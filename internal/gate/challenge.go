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

// passOf returns the pass in a request's cookie.
func (l *Limiter) passOf(r *http.Request) rule.Pass {
	browser := l.browser(r)
	number, valid := browser.Pass()
	return rule.Pass{Number: number, Valid: valid}
}

// RedeemTicket answers a request of a browser that has waited, and brings the ticket of its page. It asks no store and
// charges nothing.
func (x *Exchange) RedeemTicket() error {
	browser := x.limiter.browser(x.request)
	_, target := originalRequest(x.request)
	x.decisionOf()
	outcome, err := browser.Exchange(answerWriter{x.ResponseWriter, x}, x.limiter.Status, target)
	x.challenged(outcome)
	return err
}

// challenged counts and logs what became of a challenge.
func (x *Exchange) challenged(o challenge.Outcome) {
	x.limiter.Process.Challenged(o)
	if fields, ok := x.request.Context().Value(caddyhttp.ExtraLogFieldsCtxKey).(*caddyhttp.ExtraLogFields); ok {
		fields.Set(zap.String("ratelimit_challenge", string(o)))
	}
}

// isNavigation reports whether a person sees the answer of a request.
func isNavigation(r *http.Request) bool {
	method, _ := originalRequest(r)
	return challenge.IsNavigation(method, r.Header)
}

// MayWait reports whether a browser that checks deny may be shown the page that waits: the quota of each check that
// denies is used up for a while, and the client's key has another pass.
func (l *Limiter) MayWait(q *CheckGroup, pass rule.Pass) bool {
	if !l.challenges {
		return false
	}
	may := false
	for i := range q.Checks {
		c := &q.Checks[i]
		if c.Result.Passes() {
			continue
		}
		passes := l.Rules.RuleOf(c).Challenge.Passes
		usedUp := rule.ReasonOf(q.Checks[i:i+1], q.Source) == rule.ReasonLimit && c.Result.RetryAfter != limiter.Never
		if passes == 0 || passes == 1 && pass.Valid || !usedUp {
			return false
		}
		may = true
	}
	return may && l.Challenges.Ready()
}

// showPage answers a denied request with the page that waits. The ticket of the page has another number than the pass
// that is used up.
func (x *Exchange) showPage(verdict *Verdict) error {
	l := x.limiter
	x.challenged(challenge.Shown)
	x.showQuotas()
	browser := l.browser(x.request)
	_, wanted := originalRequest(x.request)
	return browser.Page(answerWriter{x.ResponseWriter, x}, l.Status, wanted, func(number uint16) bool {
		return !verdict.pass.Valid || !slices.ContainsFunc(verdict.Checks, func(c limiter.Check) bool {
			passes := l.Rules.RuleOf(&c).Challenge
			return !c.Result.Passes() && passes.Of(verdict.pass) == passes.Of(rule.Pass{Number: number})
		})
	})
}
