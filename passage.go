package redisratelimit

import (
	"io"
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

// responseWriter is a request's way through one handler, and its response's way back. Each handler judges by
// the response as it sees it, which handlers further out may replace; the outermost one of a request
// sets the headers of all. It does so at the last moment before the response's header is written, so
// that they replace those of an upstream. Informational responses pass by; 101 is final.
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

	// What the passage needs besides, so that it costs one allocation.
	own    decision
	checks [2]limiter.Check
}

// decisionFor returns the decision about the request: that which an earlier handler has begun, or the
// passage's own.
func (p *responseWriter) decisionFor(repl *caddy.Replacer) *decision {
	if p.decision == nil {
		p.decision = p.own.join(p.request, repl)
	}
	return p.decision
}

// next calls the next handler, and sees to its response however that comes about. Where the headers
// are set further out, and nothing depends on the response, nobody needs to see it here.
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

// finish charges what the response was found to cost.
func (p *responseWriter) finish() {
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
		p.settle(status, p.Header())
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
		p.decision.setHeaders(p.Header())
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

// Interface guards
var (
	_ http.ResponseWriter = (*responseWriter)(nil)
	_ io.ReaderFrom       = (*responseWriter)(nil)
)
