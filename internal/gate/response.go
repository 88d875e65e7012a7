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
func (v *Visit) Next(next caddyhttp.Handler) error {
	v.unused()
	v.outermost = !v.decision.serving && v.limiter.Formats != 0
	if !v.outermost && !v.awaited.settles() {
		return next.ServeHTTP(v.ResponseWriter, v.request)
	}
	v.decision.serving, v.decision.refused = true, false
	v.noteAnswer()
	defer v.finish() // whatever becomes of the handlers
	err := next.ServeHTTP(v, v.request)
	if !v.done {
		v.endUnanswered(err)
		v.setHeaders()
	} else if a := v.awaited; a != nil {
		a.response.Complete = err == nil && a.response.Begun && !a.failed
	}
	return err
}

// finish settles what the response costs. A request that a handler further in refused is charged nowhere.
func (v *Visit) finish() {
	if v.outermost {
		v.decision.serving = false
	}
	if v.awaited != nil && v.decision.refused {
		v.awaited.response.Refused = true
	}
	v.settle()
}

// onHeader judges the final response by its status and header.
func (v *Visit) onHeader(status int) {
	if v.done {
		return
	}
	v.done = true
	if a := v.awaited; a != nil {
		a.response.Begun = status != statusClientGone || !v.clientGone() // reverse_proxy writes 499 for a client that left
		a.tunnels = status == http.StatusOK && isTunnel(v.request)
		judged := v.judgedStatus(status)
		a.response.Failure = judged >= http.StatusBadRequest
		v.judge(judged, v.Header())
		v.unused()
		if a.response.Begun && !a.tunnels {
			v.startBody()
		}
	}
	v.setHeaders()
}

// judgedStatus is the status by which a response is judged: 101 for a tunnel, as over HTTP/1.1.
func (v *Visit) judgedStatus(status int) int {
	if v.awaited.tunnels {
		return http.StatusSwitchingProtocols
	}
	return v.decision.judgedStatus(status, v.Header())
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
func (v *Visit) setHeaders() {
	if v.outermost {
		v.decision.quotas.SetHeaders(v.Header(), v.request.Header)
	}
}

// startBody begins to read the body, if a cost is in it.
func (v *Visit) startBody() {
	if isHead(v.request) {
		return
	}
	for i := range v.awaited.passed {
		if v.awaited.passed[i].Rule.Cost.ReadsBody() {
			v.awaited.response.Body = v.limiter.Rules.NewBody(v.Header())
			return
		}
	}
}

// WriteHeader implements [http.ResponseWriter].
func (v *Visit) WriteHeader(status int) {
	if status >= http.StatusOK || status == http.StatusSwitchingProtocols {
		v.onHeader(status)
	}
	v.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (v *Visit) Write(data []byte) (int, error) {
	v.onHeader(http.StatusOK)
	if v.awaited == nil || v.awaited.tunnels { // what passes a tunnel is no body
		return v.ResponseWriter.Write(data)
	}
	if body := v.awaited.response.Body; body != nil {
		defer body.Write(data) // which is on its way, whether or not the client takes it
	}
	written := 0
	for {
		piece := data[written:]
		if v.hidesSent() {
			piece = piece[:min(len(piece), copyLen)]
		}
		n, err := v.ResponseWriter.Write(piece)
		v.countSent(int64(n), int64(len(piece)), err)
		if written += n; err != nil || n < len(piece) || written == len(data) {
			return written, err
		}
	}
}

// ReadFrom implements [io.ReaderFrom]. A body that is read goes through Write, as does one whose bytes only Write
// can count.
func (v *Visit) ReadFrom(r io.Reader) (int64, error) {
	v.onHeader(http.StatusOK)
	if v.awaited != nil && (v.awaited.response.Body != nil || v.hidesSent()) {
		buffer, ok := copyBuffers.Get().(*[copyLen]byte)
		if !ok {
			buffer = new([copyLen]byte)
		}
		defer copyBuffers.Put(buffer)
		return io.CopyBuffer(struct{ io.Writer }{v}, r, buffer[:])
	}
	n, err := v.ResponseWriterWrapper.ReadFrom(r)
	if v.awaited != nil {
		v.countSent(n, n, err)
	}
	return n, err
}

// copyLen is the length of the pieces in which ReadFrom copies a body that is read.
const copyLen = 32 << 10

var copyBuffers sync.Pool

// hidesSent reports whether a failed write says that nothing was sent, whatever was: over HTTP/2 and 3. It counts
// as sent, and is short for that.
func (v *Visit) hidesSent() bool { return v.request.ProtoMajor >= 2 }

// countSent counts a piece of the body, of which so much was sent. A response to which no body belongs is no
// broken one.
func (v *Visit) countSent(n, length int64, err error) {
	a := v.awaited
	if err != nil && !errors.Is(err, http.ErrBodyNotAllowed) {
		if v.hidesSent() && !a.failed {
			n = length
		}
		a.failed = true
	}
	a.response.Bytes += n
}

// FlushError writes the header, as flushing does, and is what [http.ResponseController] calls.
func (v *Visit) FlushError() error {
	v.onHeader(http.StatusOK)
	return http.NewResponseController(v.ResponseWriter).Flush()
}

// Interface guards
var (
	_ http.ResponseWriter = (*Visit)(nil)
	_ io.ReaderFrom       = (*Visit)(nil)
)
