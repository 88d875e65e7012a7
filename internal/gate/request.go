package gate

import (
	"net/http"
	"net/url"
	"sync"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/answer"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/challenge"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/failover"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storepool"
)

// Exchange is one request of a client at one limiter, with its response, of which it is the writer. The response is
// seen as this handler sees it; handlers further out may replace it. If several limiters meet a request, the outermost
// one sets the headers of all, at the last moment before the response's header is written, so that they replace those
// of an upstream. Informational responses pass by; 101 is final.
type Exchange struct {
	caddyhttp.ResponseWriterWrapper
	limiter  *Limiter
	request  *http.Request
	repl     *caddy.Replacer     // of the request; nil outside of Caddy
	vars     map[string]any      // of the request; nil outside of Caddy, and before its evaluation
	decision *sharedDecision     // of the request; nil: this limiter has not asked for one
	writer   *quotaWriter        // that the decision is a part of; nil: no writer is there, or it is another limiter's
	values   *answer.QuotaValues // in one piece with the decision; nil: there are no values, or another limiter has them
	stores   *storepool.Stores   // that decide, while the exchange uses them
	pending  *pendingWork        // what ends with the response or the request; nil: nothing does

	body  *BodyReading           // nil: the limiter's rules need no body
	place *failover.WaitingPlace // that ends with the request, as pending does; nil: the request has not waited

	setsHeaders bool // this is the outermost limiter that shows quotas
	hasHeader   bool // the header of the final response was seen

	lasts bool // the exchange may be referred to after its end

	checks [1]limiter.Check // memory that most requests need
	more   []limiter.Check  // memory for several, which stays with the exchange; empty: this request has not used it
}

// NewExchange begins the exchange of a request.
func (l *Limiter) NewExchange(w http.ResponseWriter, r *http.Request) *Exchange {
	x, ok := exchanges.Get().(*Exchange)
	if !ok {
		x = new(Exchange)
	}
	x.limiter, x.request, x.ResponseWriter = l, r, w
	x.repl, _ = r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	return x
}

// exchanges are the exchanges that have ended, for later requests.
var exchanges sync.Pool

// Action says what has to happen with a request at a limiter.
type Action int

// The actions.
const (
	NotLimited           Action = iota // no rule concerns the request, which goes on
	ReturnsFromChallenge               // the request is one of a page that waits
	AsksUsage                          // the client is told its quotas
	Refused                            // the request yields no key, or a matcher fails
	Exempt                             // the request goes on: it is exempt by the option or by an override
	Limited                            // the store decides
)

// Evaluate evaluates this handler's rules for the request and says what has to happen with it. The error says why the
// request is refused.
func (x *Exchange) Evaluate(e *rule.Evaluation) (Action, error) {
	l := x.limiter
	if from := x.request.RemoteAddr; from == includeAddr && isInclude(x.request) {
		return NotLimited, nil
	}
	if l.Forwarded != nil {
		l.Forwarded.Look(x.request)
	}
	if rules := len(l.Rules.Rules); rules <= len(x.checks) {
		e.Enforced = x.checks[:0]
	} else {
		if cap(x.more) == 0 {
			x.more = make([]limiter.Check, 4) // many rules may not select the request
		}
		x.more = x.more[:min(rules, cap(x.more))]
		e.Enforced = x.more[:0]
	}
	if l.Crawlers != nil {
		e.Crawler = l.Crawlers.Identify(x.request, x.repl).Crawler()
	}
	if l.readsBody {
		x.body = l.BeginBody(x.ResponseWriter, x.request, x.repl)
		defer x.body.End()
		e.Body = x.body
	}
	action, err := l.Evaluate(x.request, x.repl, e)
	if x.vars = e.Vars; x.vars == nil && (action != NotLimited || l.ShowsDecision) {
		x.vars, _ = x.request.Context().Value(caddyhttp.VarsCtxKey).(map[string]any)
	}
	if l.ShowsDecision && (action == NotLimited || action == Refused) {
		x.decisionOf() // whose placeholders are empty, unless another handler has decided
	}
	return action, err
}

// Evaluate evaluates the rules for a request and says what has to happen with it. The error says why the request is
// refused.
func (l *Limiter) Evaluate(r *http.Request, repl *caddy.Replacer, e *rule.Evaluation) (Action, error) {
	if live := l.Rules.Overrides; live != nil && live.Applied.Load() != nil {
		switch blocked, err := l.Rules.Blocks(r, e); {
		case err != nil:
			return Refused, err
		case blocked:
			return Limited, nil
		}
	}
	if len(l.Usage.matcher) > 0 || l.challenges {
		brings := l.challenges && challenge.BringsToken(originalRequest(r))
		once := brings && goesOnce(r)
		switch {
		case e.AnyMatch: // the usage page asks for the quotas
		case brings && !once:
			return ReturnsFromChallenge, nil
		case l.Usage.matches(r):
			return AsksUsage, nil
		}
		if l.challenges {
			e.Pass = l.passOf(r, once)
		}
	}
	if err := l.Rules.Evaluate(r, repl, e); err != nil {
		return Refused, err
	}
	switch {
	case len(e.Enforced) > 0 || l.hasDryRuns && e.Concerns():
		return Limited, nil
	case e.ExemptClient, e.Exempted:
		return Exempt, nil
	}
	return NotLimited, nil
}

// decisionOf returns the decision that the handlers of a request share, and creates it on first use. From then on its
// placeholders are set.
func (x *Exchange) decisionOf() *sharedDecision {
	if x.decision != nil {
		return x.decision
	}
	return x.decisionAbout(false)
}

// decisionAbout is [Exchange.decisionOf] as a request goes on or is refused. A new decision is one piece of memory with what the
// response then needs.
func (x *Exchange) decisionAbout(refused bool) *sharedDecision {
	if x.decision != nil {
		return x.decision
	}
	switch earlier := x.vars[decisionVar].(type) {
	case *sharedDecision:
		x.decision = earlier
		return earlier
	case passed:
		x.decision = earlier.decision()
	default:
		switch {
		case refused:
			made := new(refusedDecision)
			made.decision.refusal = &made.refusal
			x.decision, x.values = &made.decision, &made.values
		case x.limiter.Formats != 0:
			x.writer = new(quotaWriter)
			x.decision, x.values = &x.writer.decision, &x.writer.values
		default:
			x.decision = new(sharedDecision)
		}
		if x.repl != nil {
			x.repl.Map(x.decision.placeholder)
		}
	}
	if x.vars != nil {
		x.vars[decisionVar] = x.decision
	}
	return x.decision
}

// knownDecision returns the decision about the request; nil if no handler has made a decision, or no decision that can change.
func (x *Exchange) knownDecision() *sharedDecision {
	if x.decision == nil {
		x.decision, _ = x.vars[decisionVar].(*sharedDecision)
	}
	return x.decision
}

// acquireStores begins the use of the stores. Requests of a configuration may go on after its end, when its own use of
// the stores has ended as well; the stores are then opened again.
func (x *Exchange) acquireStores() {
	x.stores = x.limiter.Stores
	if x.stores.Uses.Add(1) <= 0 {
		x.stores = x.stores.Reopen()
	}
}

// releaseIfIdle ends the use of the stores if nothing is refunded, charged or ended later. A connection that was handed
// over may live for hours.
func (x *Exchange) releaseIfIdle() {
	if x.stores == nil || x.pending != nil && (len(x.pending.checks)+len(x.pending.running) > 0 || x.place != nil) {
		return
	}
	if x.stores.Uses.Add(-1) == 0 {
		x.stores.CloseUnused()
	}
	x.stores = nil
}

// pendingWork is what ends with a response or with its request. Most requests of most handlers have nothing of it.
type pendingWork struct {
	checks   []PendingCheck  // that the response settles
	running  []limiter.Check // that end with the request
	response rule.Response   // so far

	measures bool // a check waits for the end of the response, whose body counts
	failed   bool // a part of the body was not written
	tunnel   bool // the response of 200 begins a WebSocket

	answered any // the latency of a backend that answered before the handlers behind this one were called; nil: none did

	timing *backendTiming // of cost backend_time; nil: no rule has that, or the handlers behind were not called
}

// work returns what ends with the exchange, to add to it.
func (x *Exchange) work() *pendingWork {
	if x.pending == nil {
		x.pending = &pendingWork{response: rule.Response{Origin: rule.FromNoBackend}} // until the handlers are called
	}
	return x.pending
}

// Caddy's templates give these to the requests that they make of themselves, for httpInclude.
const (
	includeAddr   = "127.0.0.1:10000"
	includeHeader = "Caddy-Templates-Include"
)

// isInclude reports whether a request from includeAddr is part of another one's page, and so none of a client. Those of
// clients have in their context what their server or connection is, whatever they claim.
func isInclude(r *http.Request) bool {
	ctx := r.Context()
	return len(r.Header[includeHeader]) > 0 && ctx.Value(http.ServerContextKey) == nil && ctx.Value(http.LocalAddrContextKey) == nil
}

// noteAnswer notes the status that this handler answers with, for handlers further out, which see the header next.
func (x *Exchange) noteAnswer(status int) {
	if d := x.knownDecision(); d != nil {
		d.answered = uint16(status)
	}
}

// clientGone reports whether the client left. After the response's header it says nothing: a client that has read
// the response may close at once.
func (x *Exchange) clientGone() bool { return x.request.Context().Err() != nil }

// originalRequest returns the method and the URL that the client sent, which handlers further out may have rewritten.
func originalRequest(r *http.Request) (method string, target *url.URL) {
	if original, ok := r.Context().Value(caddyhttp.OriginalRequestCtxKey).(http.Request); ok {
		return original.Method, original.URL
	}
	return r.Method, r.URL
}

// isHead reports whether the client asked for the header alone. No body is sent then, though handlers may
// write one.
func isHead(r *http.Request) bool {
	method, _ := originalRequest(r)
	return method == http.MethodHead
}
