package gate

import (
	"errors"
	"io"
	"net/http"
	"sync"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// Next calls the next handler and settles its response, however that comes about. The response is not
// seen here if nothing depends on it and no header is set: there is none to show, or a handler further out does.
func (x *Exchange) Next(next caddyhttp.Handler) error {
	x.releaseIfIdle()
	x.outermost = !x.decision.serving && x.limiter.Formats != 0
	if !x.outermost && !x.pending.settles() {
		return next.ServeHTTP(x.ResponseWriter, x.request)
	}
	x.decision.serving, x.decision.refused = true, false
	x.noteAnswer()
	defer x.finish() // whatever becomes of the handlers
	err := next.ServeHTTP(x, x.request)
	if !x.done {
		x.endUnanswered(err)
		x.setHeaders()
	} else if a := x.pending; a != nil {
		a.response.Complete = err == nil && a.response.Begun && !a.failed
	}
	return err
}

// finish settles what the response costs. A request that a handler further in refused is charged nowhere.
func (x *Exchange) finish() {
	if x.outermost {
		x.decision.serving = false
	}
	if x.pending != nil && x.decision.refused {
		x.pending.response.Refused = true
	}
	x.settle()
}

// onHeader judges the final response by its status and header.
func (x *Exchange) onHeader(status int) {
	if x.done {
		return
	}
	x.done = true
	if a := x.pending; a != nil {
		a.response.Begun = status != statusClientGone || !x.clientGone() // reverse_proxy writes 499 for a client that left
		a.tunnels = status == http.StatusOK && isTunnel(x.request)
		judged := x.judgedStatus(status)
		a.response.Failure = judged >= http.StatusBadRequest
		x.settleByStatus(judged, x.Header())
		x.releaseIfIdle()
		if a.response.Begun && !a.tunnels {
			x.startBody()
		}
	}
	x.setHeaders()
}

// judgedStatus is the status by which a response is judged: 101 for a tunnel, as over HTTP/1.1.
func (x *Exchange) judgedStatus(status int) int {
	if x.pending.tunnels {
		return http.StatusSwitchingProtocols
	}
	return x.decision.judgedStatus(status, x.Header())
}

// isTunnel reports whether a response of 200 begins the WebSocket of a request by HTTP/2 or 3 (RFC 8441). What
// is behind Caddy's reverse proxy has answered 101 then.
func isTunnel(r *http.Request) bool {
	if caddyhttp.GetVar(r.Context(), "extended_connect_websocket_body") == nil {
		return false
	}
	repl := replacerOf(r)
	if repl == nil {
		return false
	}
	behind, _ := repl.Get("http.reverse_proxy.status_code")
	return behind == http.StatusSwitchingProtocols
}

// setHeaders sets the headers, unless a handler further out does.
func (x *Exchange) setHeaders() {
	if x.outermost {
		x.decision.quotas.SetHeaders(x.Header(), x.request.Header)
	}
}

// startBody begins to read the body, if a cost is in it.
func (x *Exchange) startBody() {
	if isHead(x.request) {
		return
	}
	for i := range x.pending.checks {
		if x.pending.checks[i].Rule.Cost.ReadsBody() {
			x.pending.response.Body = x.limiter.Rules.NewBody(x.Header())
			return
		}
	}
}

// WriteHeader implements [http.ResponseWriter].
func (x *Exchange) WriteHeader(status int) {
	if status >= http.StatusOK || status == http.StatusSwitchingProtocols {
		x.onHeader(status)
	}
	x.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (x *Exchange) Write(data []byte) (int, error) {
	x.onHeader(http.StatusOK)
	if x.pending == nil || x.pending.tunnels { // what passes a tunnel is no body
		return x.ResponseWriter.Write(data)
	}
	if body := x.pending.response.Body; body != nil {
		defer body.Write(data) // which is on its way, whether or not the client takes it
	}
	written := 0
	for {
		piece := data[written:]
		if x.hidesSent() {
			piece = piece[:min(len(piece), copyLen)]
		}
		n, err := x.ResponseWriter.Write(piece)
		x.countSent(int64(n), int64(len(piece)), err)
		if written += n; err != nil || n < len(piece) || written == len(data) {
			return written, err
		}
	}
}

// ReadFrom implements [io.ReaderFrom]. A body that is read goes through Write, as does one whose bytes only Write
// can count.
func (x *Exchange) ReadFrom(r io.Reader) (int64, error) {
	x.onHeader(http.StatusOK)
	if x.pending != nil && (x.pending.response.Body != nil || x.hidesSent()) {
		buffer, ok := copyBuffers.Get().(*[copyLen]byte)
		if !ok {
			buffer = new([copyLen]byte)
		}
		defer copyBuffers.Put(buffer)
		return io.CopyBuffer(struct{ io.Writer }{x}, r, buffer[:])
	}
	n, err := x.ResponseWriterWrapper.ReadFrom(r)
	if x.pending != nil {
		x.countSent(n, n, err)
	}
	return n, err
}

// copyLen is the length of the pieces in which ReadFrom copies a body that is read.
const copyLen = 32 << 10

var copyBuffers sync.Pool

// hidesSent reports whether a failed write says that nothing was sent, whatever was: over HTTP/2 and 3. It counts
// as sent, and is short for that.
func (x *Exchange) hidesSent() bool { return x.request.ProtoMajor >= 2 }

// countSent counts a piece of the body, of which so much was sent. A response to which no body belongs is no
// broken one.
func (x *Exchange) countSent(n, length int64, err error) {
	a := x.pending
	if err != nil && !errors.Is(err, http.ErrBodyNotAllowed) {
		if x.hidesSent() && !a.failed {
			n = length
		}
		a.failed = true
	}
	a.response.Bytes += n
}

// FlushError writes the header, as flushing does, and is what [http.ResponseController] calls.
func (x *Exchange) FlushError() error {
	x.onHeader(http.StatusOK)
	return http.NewResponseController(x.ResponseWriter).Flush()
}

// Interface guards
var (
	_ http.ResponseWriter = (*Exchange)(nil)
	_ io.ReaderFrom       = (*Exchange)(nil)
)
