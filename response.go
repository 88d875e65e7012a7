package redisratelimit

import (
	"errors"
	"io"
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/quotaheader"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

// statusClientGone is what servers log for a client that left before its answer.
const statusClientGone = 499

// responseWriter sees the response to a request as one handler does; handlers further out may replace it.
// Refunds and charges depend on it. The outermost one of a request sets the headers of all handlers, at
// the last moment before the response's header is written, so that they replace those of an upstream.
// Informational responses pass by; 101 is final.
type responseWriter struct {
	caddyhttp.ResponseWriterWrapper
	request   *http.Request
	decision  *decision         // of the request; nil before this handler has decided
	reserved  []reservation     // charges that depend on the response
	deferred  []deferredCharge  // charges that are made after the response
	retained  *limiter.Failover // the store that is kept open for both
	bytes     int64             // of the response's body, so far
	outermost bool
	done      bool // the final response was seen

	// Memory that the request needs besides, so that it costs one allocation.
	own    decision
	checks [2]limiter.Check
}

// decisionFor returns the decision about the request: that of an earlier handler, or its own.
func (p *responseWriter) decisionFor(repl *caddy.Replacer) *decision {
	if p.decision == nil {
		p.decision = p.own.join(p.request, repl)
	}
	return p.decision
}

// next calls the next handler and settles its response, however that comes about. The response is not
// seen here where the headers are set further out and nothing depends on it.
func (p *responseWriter) next(w http.ResponseWriter, next caddyhttp.Handler) error {
	p.outermost = !p.decision.serving
	if !p.outermost && len(p.reserved) == 0 && len(p.deferred) == 0 {
		return next.ServeHTTP(w, p.request)
	}
	p.decision.serving = true
	p.ResponseWriter = w
	defer p.finish() // whatever becomes of the handlers
	err := next.ServeHTTP(p, p.request)
	if !p.done {
		p.settleUnanswered(err, p.Header())
		p.setHeaders()
	}
	return err
}

// finish charges what the response costs, and keeps what a panic has left reserved.
func (p *responseWriter) finish() {
	p.keepReserved()
	if p.outermost {
		p.decision.serving = false
	}
	if len(p.deferred) > 0 {
		p.applyCharges()
	}
}

// onHeader judges the final response by its status and header.
func (p *responseWriter) onHeader(status int) {
	if !p.done {
		p.done = true
		p.settle(p.decision.judgedStatus(status, p.Header()), p.Header())
		if len(p.deferred) == 0 {
			p.release() // a connection that was handed over may live for hours
		}
		p.setHeaders()
	}
}

// release ends the use of the store. Nothing is refunded or charged afterwards.
func (p *responseWriter) release() {
	if p.retained != nil {
		p.retained.Release()
		p.retained = nil
	}
}

// setHeaders sets the headers, unless a handler further out does.
func (p *responseWriter) setHeaders() {
	if p.outermost {
		p.decision.quotas.SetHeaders(p.Header())
	}
}

// WriteHeader implements [http.ResponseWriter].
func (p *responseWriter) WriteHeader(status int) {
	if status >= http.StatusOK || status == http.StatusSwitchingProtocols {
		p.onHeader(status)
	}
	p.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (p *responseWriter) Write(data []byte) (int, error) {
	p.onHeader(http.StatusOK)
	n, err := p.ResponseWriter.Write(data)
	p.bytes += int64(n)
	return n, err
}

// ReadFrom implements [io.ReaderFrom].
func (p *responseWriter) ReadFrom(r io.Reader) (int64, error) {
	p.onHeader(http.StatusOK)
	n, err := p.ResponseWriterWrapper.ReadFrom(r)
	p.bytes += n
	return n, err
}

// FlushError writes the header, as flushing does, and is what [http.ResponseController] calls.
func (p *responseWriter) FlushError() error {
	p.onHeader(http.StatusOK)
	return http.NewResponseController(p.ResponseWriter).Flush()
}

// reservation is a take that stays only if the response counts. The unit is taken before the handlers
// run: a thousand log-in attempts at once would all pass a count that is made afterwards.
type reservation struct {
	check   limiter.Check
	handler *Handler
	source  limiter.Source
	rule    *rule.Rule
	dryRun  bool
}

// follow does what follows from takes that passed: refunds and charges by the response, and events.
func (h *Handler) follow(p *responseWriter, checks []limiter.Check, source limiter.Source, dryRun bool) {
	h.reserve(p, checks, source, dryRun)
	h.deferCharge(p, checks, source, dryRun)
	h.notifyTakes(checks, source, dryRun)
}

// reserve keeps the checks of a decision whose units the response may refund.
func (h *Handler) reserve(p *responseWriter, checks []limiter.Check, source limiter.Source, dryRun bool) {
	for i := range checks {
		if checks[i].Reserve && checks[i].Result.Passes() {
			p.reserved = append(p.reserved, reservation{check: checks[i], handler: h, source: source, rule: h.rules.RuleOf(&checks[i]), dryRun: dryRun})
		}
	}
}

// keep has the units of a reservation stay.
func (r *reservation) keep() {
	r.handler.app.store.Confirm([]limiter.Check{r.check}, r.source)
	r.handler.notifyTake(&r.check, r.rule, r.source, r.dryRun)
}

// refund returns the units of a reservation.
func (r *reservation) refund(quotas *quotaheader.Quotas) {
	r.handler.app.store.Refund([]limiter.Check{r.check}, r.source)
	if !r.dryRun {
		quotas.Refund(&r.check)
	}
}

// settle refunds the reservations that the response does not count. All stay where the client has gone:
// it must not get them back by leaving.
func (p *responseWriter) settle(status int, header http.Header) {
	if p.request.Context().Err() != nil {
		p.keepReserved()
		return
	}
	reserved := p.reserved
	p.reserved = nil
	for i := range reserved {
		if r := &reserved[i]; r.rule.CountIf.Match(status, header) {
			r.keep()
		} else {
			r.refund(&p.decision.quotas)
		}
	}
}

// keepReserved keeps all reservations.
func (p *responseWriter) keepReserved() {
	for i := range p.reserved {
		p.reserved[i].keep()
	}
	p.reserved = nil
}

// settleUnanswered settles the reservations where the handlers end without a response. They stay if the
// client may be the cause: it left, or it broke what is behind the handlers. A refusal by this module is
// no such break, whatever its status.
func (p *responseWriter) settleUnanswered(err error, header http.Header) {
	if len(p.reserved) == 0 {
		return
	}
	status := http.StatusOK // what net/http makes of it
	if err != nil {
		status = http.StatusInternalServerError
		if coded := (caddyhttp.HandlerError{}); errors.As(err, &coded) && coded.StatusCode != 0 {
			status = coded.StatusCode
		}
	}
	if status >= statusClientGone && !rule.IsRefusal(err) {
		p.keepReserved()
	}
	p.settle(status, header)
}

// deferredCharge is what an allowed request costs once its response tells how much that is. A client that breaks
// the response off pays too; later requests pay if there is not enough left.
type deferredCharge struct {
	check   limiter.Check
	handler *Handler
	rule    *rule.Rule
	source  limiter.Source
	dryRun  bool
}

// deferCharge keeps the checks of an allowed request that its response charges.
func (h *Handler) deferCharge(p *responseWriter, checks []limiter.Check, source limiter.Source, dryRun bool) {
	if !h.charges {
		return
	}
	for i := range checks {
		r := h.rules.RuleOf(&checks[i])
		if r.Charge.From != "" && checks[i].Result.Passes() {
			p.deferred = append(p.deferred, deferredCharge{check: checks[i], handler: h, rule: r, source: source, dryRun: dryRun})
		}
	}
}

// applyCharges charges for the response, unless a handler further in denied the request: a denied request
// is charged nowhere.
func (p *responseWriter) applyCharges() {
	if p.decision.outcome == rule.Denied || p.decision.outcome == rule.FailedClosed {
		return
	}
	repl, _ := p.request.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	responseBytes := p.bytes
	if isHead(p.request) {
		responseBytes = 0
	}
	for i := range p.deferred {
		charge := &p.deferred[i]
		charge.check.Weight = charge.handler.rules.ChargeOf(charge.rule, repl, responseBytes)
		charge.handler.app.store.Charge([]limiter.Check{charge.check}, charge.source)
		charge.handler.notifyCharge(charge)
	}
}

// isHead reports whether the client asked for the header alone. No body is sent then, though handlers may
// write one.
func isHead(r *http.Request) bool {
	original, ok := r.Context().Value(caddyhttp.OriginalRequestCtxKey).(http.Request)
	return ok && original.Method == http.MethodHead
}

// Interface guards
var (
	_ http.ResponseWriter = (*responseWriter)(nil)
	_ io.ReaderFrom       = (*responseWriter)(nil)
)
