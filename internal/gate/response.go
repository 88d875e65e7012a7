package gate

import (
	"errors"
	"io"
	"net/http"
	"sync"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/answer"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
)

// Next calls the next handler, with this exchange as its response writer unless nothing depends on the response: no
// cost, and no header that this limiter sets.
func (x *Exchange) Next(next caddyhttp.Handler) error {
	if len(x.limiter.Cookies) > 0 {
		defer x.limiter.lookAtCookies(x.request, x.Header())
	}
	x.releaseIfIdle()
	d, pends := x.decision, x.pending != nil && len(x.pending.checks) > 0
	x.setsHeaders = x.limiter.Formats != 0 && !d.shown
	if !x.setsHeaders && !pends {
		return next.ServeHTTP(x.ResponseWriter, x.request)
	}
	d.shown, d.refused, d.answered = d.shown || x.setsHeaders, false, 0
	if w := x.writer; !pends && w != nil {
		w.ResponseWriter, w.request = x.ResponseWriter, x.request
		err := next.ServeHTTP(w, x.request)
		w.showQuotas()
		return err
	}
	x.lasts = true // as the response's writer
	if pends {
		x.pending.response.Origin = rule.FromHandlers
		x.noteEarlier()
		if x.limiter.timesBackend {
			x.pending.timing = newTiming(x.decision)
		}
	}
	err := next.ServeHTTP(x, x.request)
	if x.limiter.timesBackend && pends {
		x.pending.timing.returned = true
	}
	if x.hasHeader {
		if pends {
			x.pending.response.Complete = err == nil && x.pending.response.Begun && !x.pending.failed
		}
		return err
	}
	if pends {
		x.settleUnanswered(err)
	}
	if x.setsHeaders {
		x.showQuotas()
	}
	return err
}

// showQuotas sets the headers that show the quotas.
func (x *Exchange) showQuotas() {
	var refusal *answer.RefusalValues
	if d := x.decision; d.refusal != nil {
		refusal = &d.refusal.values
	}
	x.decision.quotas.SetHeaders(x.Header(), x.request.Header, x.values, refusal)
}

// PassExempt lets a request through that no policy counts, because it is exempt by the option or by an override.
func (x *Exchange) PassExempt(e *rule.Evaluation, next caddyhttp.Handler) error {
	x.noteExempt(exemptSource(e.Exempted))
	return x.Next(next)
}

// noteExempt notes that the request goes on because it is exempt, by a source.
func (x *Exchange) noteExempt(source limiter.Source) {
	d := x.decisionOf()
	d.outcome, d.source = limiter.OutcomeExempt, source
	if fields := x.limiter.server.logFields(x.request); fields != nil {
		d.log(fields)
	}
}

// exemptSource returns the source of an exemption: an override, or empty where the configuration exempts.
func exemptSource(byOverride bool) limiter.Source {
	if byOverride {
		return limiter.SourceOverride
	}
	return ""
}

// End ends the exchange, whatever became of the handlers: what is pending, and its use of the stores. The exchange must
// not be used afterwards: a later request has it, unless something may still refer to it, such as what has the response's
// writer.
func (x *Exchange) End() {
	if x.setsHeaders {
		x.decision.shown = false
	}
	if x.pending != nil {
		x.endPending()
	}
	if x.body != nil {
		x.body.GiveBack()
	}
	x.releaseIfIdle()
	if !x.lasts && x.pending == nil {
		more := x.more
		clear(more)
		*x = Exchange{}
		x.more = more[:0]
		if !poisonsExchanges {
			exchanges.Put(x)
		}
	}
}

// WriteHeader implements [http.ResponseWriter].
func (x *Exchange) WriteHeader(status int) {
	if !x.hasHeader && (status >= http.StatusOK || status == http.StatusSwitchingProtocols) {
		x.onHeader(status)
	}
	x.ResponseWriter.WriteHeader(status)
}

// onHeader settles what the header of the final response decides, and sets the headers that show the quotas.
func (x *Exchange) onHeader(status int) {
	x.hasHeader = true
	if x.pending != nil && len(x.pending.checks) > 0 {
		x.settleAtHeader(status)
	}
	if x.setsHeaders {
		x.showQuotas()
	}
}

// Write implements [http.ResponseWriter].
func (x *Exchange) Write(data []byte) (int, error) {
	if !x.hasHeader {
		x.onHeader(http.StatusOK)
	}
	if x.pending == nil || !x.pending.measures {
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

// ReadFrom implements [io.ReaderFrom]. A body whose numbers are read goes through Write, as does one whose bytes only
// Write can count.
func (x *Exchange) ReadFrom(r io.Reader) (int64, error) {
	if !x.hasHeader {
		x.onHeader(http.StatusOK)
	}
	if x.pending == nil || !x.pending.measures {
		return x.ResponseWriterWrapper.ReadFrom(r)
	}
	if x.pending.response.Body != nil || x.hidesSent() {
		buffer, ok := copyBuffers.Get().(*[copyLen]byte)
		if !ok {
			buffer = new([copyLen]byte)
		}
		defer copyBuffers.Put(buffer)
		return io.CopyBuffer(struct{ io.Writer }{x}, r, buffer[:])
	}
	n, err := x.ResponseWriterWrapper.ReadFrom(r)
	x.countSent(n, n, err)
	return n, err
}

// copyLen is the length of the pieces in which ReadFrom copies a body that goes through Write.
const copyLen = 32 << 10

var copyBuffers sync.Pool

// hidesSent reports whether a failed Write returns 0 even if a part of the data was sent, as on HTTP/2 and 3. All of the
// data is counted then; cost response_bytes may be a little too high.
func (x *Exchange) hidesSent() bool { return x.request.ProtoMajor >= 2 }

// countSent counts n bytes that were sent of a piece of the body. The error of a body that a response must not have is
// no error of the client.
func (x *Exchange) countSent(n, length int64, err error) {
	work := x.pending
	if err != nil && !errors.Is(err, http.ErrBodyNotAllowed) {
		if x.hidesSent() && !work.failed {
			n = length
		}
		work.failed = true
	}
	work.response.Bytes += n
}

// FlushError writes the header, as flushing does. [http.ResponseController] calls it.
func (x *Exchange) FlushError() error {
	if !x.hasHeader {
		x.onHeader(http.StatusOK)
	}
	return http.NewResponseController(x.ResponseWriter).Flush()
}

// quotaWriter carries the shared decision in one allocation with the response writer, as TestRequest_memory holds: of a request on
// whose response nothing but the headers of quotas depends. Whatever has it may go on to use it after the request, as with any
// response writer, which is why it is not used again.
type quotaWriter struct {
	caddyhttp.ResponseWriterWrapper
	decision sharedDecision
	request  *http.Request // nil: the headers are set
	values   answer.QuotaValues
}

// showQuotas sets the headers, once.
func (w *quotaWriter) showQuotas() {
	if r := w.request; r != nil {
		w.request = nil
		var refusal *answer.RefusalValues
		if d := &w.decision; d.refusal != nil { // by a handler behind this one
			refusal = &d.refusal.values
		}
		w.decision.quotas.SetHeaders(w.Header(), r.Header, &w.values, refusal)
	}
}

// WriteHeader implements [http.ResponseWriter].
func (w *quotaWriter) WriteHeader(status int) {
	if status >= http.StatusOK || status == http.StatusSwitchingProtocols {
		w.showQuotas()
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (w *quotaWriter) Write(data []byte) (int, error) {
	w.showQuotas()
	return w.ResponseWriter.Write(data)
}

// ReadFrom implements [io.ReaderFrom].
func (w *quotaWriter) ReadFrom(r io.Reader) (int64, error) {
	w.showQuotas()
	return w.ResponseWriterWrapper.ReadFrom(r)
}

// FlushError writes the header, as flushing does. [http.ResponseController] calls it.
func (w *quotaWriter) FlushError() error {
	w.showQuotas()
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Interface guards
var (
	_ http.ResponseWriter = (*Exchange)(nil)
	_ io.ReaderFrom       = (*Exchange)(nil)
	_ http.ResponseWriter = (*quotaWriter)(nil)
	_ io.ReaderFrom       = (*quotaWriter)(nil)
)
