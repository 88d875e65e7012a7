package gate

import (
	"io"
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/quotaheader"
)

// quotaWriter is the response writer of a request on whose response nothing but the headers of quotas depends. It is one
// piece of memory with the decision that it shows. Whatever has it may go on to use it after the request, as with any
// response writer, which is why it is not used again.
type quotaWriter struct {
	caddyhttp.ResponseWriterWrapper
	decision decision
	request  *http.Request // nil: the headers are set
	values   quotaheader.Values
}

// showQuotas sets the headers, once.
func (w *quotaWriter) showQuotas() {
	if r := w.request; r != nil {
		w.request = nil
		w.decision.quotas.SetHeaders(w.Header(), r.Header, &w.values)
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
	_ http.ResponseWriter = (*quotaWriter)(nil)
	_ io.ReaderFrom       = (*quotaWriter)(nil)
)
