package redisratelimit

import (
	"errors"
	"io"
	"net/http"
	"sync"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storepool"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

// statusClientGone is what servers log for a client that left before its answer.
const statusClientGone = 499

// responseWriter sees the response to a request as one handler does; handlers further out may replace it.
// What the request is charged depends on it. The outermost one of a request sets the headers of all handlers, at
// the last moment before the response's header is written, so that they replace those of an upstream.
// Informational responses pass by; 101 is final.
type responseWriter struct {
	caddyhttp.ResponseWriterWrapper
	request   *http.Request
	decision  *decision         // of the request; nil before this handler has decided
	stores    *storepool.Stores // that decide, while they are used
	awaited   *awaited          // what ends with the response or the request; nil: nothing does
	outermost bool
	done      bool // the final response was seen

	// Memory that the request needs besides, so that it costs one allocation.
	own    decision
	checks [1]limiter.Check
}

// awaited is what ends with a response or with its request. Most requests of most handlers have nothing of it.
type awaited struct {
	passed   []passedCheck   // that the response settles
	running  []limiter.Check // those that end with the request
	response rule.Response   // so far
	failed   bool            // a part of the body was not written
	tunnels  bool            // the response of 200 begins a WebSocket
}

// settles reports whether units depend on the response.
func (a *awaited) settles() bool { return a != nil && len(a.passed) > 0 }

// decisionFor returns the decision about the request: that of an earlier handler, or its own.
func (p *responseWriter) decisionFor(repl *caddy.Replacer) *decision {
	if p.decision == nil {
		p.decision = p.own.join(p.request, repl)
	}
	return p.decision
}

// room returns room for the checks of so many rules, many of which may not select the request.
func (p *responseWriter) room(rules int) []limiter.Check {
	if rules <= len(p.checks) {
		return p.checks[:0]
	}
	return make([]limiter.Check, 0, min(rules, 4))
}

// next calls the next handler and settles its response, however that comes about. The response is not
// seen here where the headers are set further out and nothing depends on it.
func (p *responseWriter) next(w http.ResponseWriter, next caddyhttp.Handler) error {
	p.endIdle()
	p.outermost = !p.decision.serving
	if !p.outermost && !p.awaited.settles() {
		return next.ServeHTTP(w, p.request)
	}
	p.decision.serving = true
	p.ResponseWriter = w
	defer p.finish() // whatever becomes of the handlers
	err := next.ServeHTTP(p, p.request)
	if !p.done {
		p.endUnanswered(err)
		p.setHeaders()
	}
	if a := p.awaited; a != nil {
		a.response.Complete = err == nil && a.response.Begun && !a.failed
	}
	return err
}

// finish settles what the response costs. A request that a handler further in denied is charged nowhere.
func (p *responseWriter) finish() {
	if p.outermost {
		p.decision.serving = false
	}
	if o := p.decision.outcome; p.awaited != nil && (o == rule.Denied || o == rule.FailedClosed) {
		p.awaited.response.Refused = true
	}
	p.settle()
}

// onHeader judges the final response by its status and header.
func (p *responseWriter) onHeader(status int) {
	if p.done {
		return
	}
	p.done = true
	if a := p.awaited; a != nil {
		a.response.Begun = status != statusClientGone || !p.clientGone() // reverse_proxy writes 499 for a client that left
		a.tunnels = status == http.StatusOK && isTunnel(p.request)
		p.judge(p.judgedStatus(status), p.Header())
		p.endIdle()
		if a.response.Begun && !a.tunnels {
			p.startBody()
		}
	}
	p.setHeaders()
}

// clientGone reports whether the client left. After the response's header it says nothing: a client that has read
// the response may close at once.
func (p *responseWriter) clientGone() bool { return p.request.Context().Err() != nil }

// judgedStatus is the status by which a response is judged: 101 for a tunnel, as over HTTP/1.1.
func (p *responseWriter) judgedStatus(status int) int {
	if p.awaited.tunnels {
		return http.StatusSwitchingProtocols
	}
	return p.decision.judgedStatus(status, p.Header())
}

// isTunnel reports whether a response of 200 begins the WebSocket of a request by HTTP/2 or 3 (RFC 8441). What
// is behind Caddy's reverse proxy has answered 101 then.
func isTunnel(r *http.Request) bool {
	if caddyhttp.GetVar(r.Context(), "extended_connect_websocket_body") == nil {
		return false
	}
	repl, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if !ok {
		return false
	}
	behind, _ := repl.Get("http.reverse_proxy.status_code")
	return behind == http.StatusSwitchingProtocols
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
	if p.awaited == nil || p.awaited.tunnels { // what passes a tunnel is no body
		return p.ResponseWriter.Write(data)
	}
	if body := p.awaited.response.Body; body != nil {
		defer body.Write(data) // which is on its way, whether or not the client takes it
	}
	written := 0
	for {
		piece := data[written:]
		if p.hidesSent() {
			piece = piece[:min(len(piece), copyLen)]
		}
		n, err := p.ResponseWriter.Write(piece)
		p.countSent(int64(n), int64(len(piece)), err)
		if written += n; err != nil || n < len(piece) || written == len(data) {
			return written, err
		}
	}
}

// ReadFrom implements [io.ReaderFrom]. A body that is read goes through Write, as does one whose bytes only Write
// can count.
func (p *responseWriter) ReadFrom(r io.Reader) (int64, error) {
	p.onHeader(http.StatusOK)
	if p.awaited != nil && (p.awaited.response.Body != nil || p.hidesSent()) {
		buffer, ok := copyBuffers.Get().(*[copyLen]byte)
		if !ok {
			buffer = new([copyLen]byte)
		}
		defer copyBuffers.Put(buffer)
		return io.CopyBuffer(struct{ io.Writer }{p}, r, buffer[:])
	}
	n, err := p.ResponseWriterWrapper.ReadFrom(r)
	if p.awaited != nil {
		p.countSent(n, n, err)
	}
	return n, err
}

// copyLen is the length of the pieces in which ReadFrom copies a body that is read.
const copyLen = 32 << 10

var copyBuffers sync.Pool

// hidesSent reports whether a failed write says that nothing was sent, whatever was: over HTTP/2 and 3. It counts
// as sent, and is short for that.
func (p *responseWriter) hidesSent() bool { return p.request.ProtoMajor >= 2 }

// countSent counts a piece of the body, of which so much was sent. A response to which no body belongs is no
// broken one.
func (p *responseWriter) countSent(n, length int64, err error) {
	a := p.awaited
	if err != nil && !errors.Is(err, http.ErrBodyNotAllowed) {
		if p.hidesSent() && !a.failed {
			n = length
		}
		a.failed = true
	}
	a.response.Bytes += n
}

// FlushError writes the header, as flushing does, and is what [http.ResponseController] calls.
func (p *responseWriter) FlushError() error {
	p.onHeader(http.StatusOK)
	return http.NewResponseController(p.ResponseWriter).Flush()
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
