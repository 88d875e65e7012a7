package redisratelimit

import (
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

// The headers' names in the form that Go's header map has.
const (
	headerLimit     = "X-Ratelimit-Limit"
	headerRemaining = "X-Ratelimit-Remaining"
	headerReset     = "X-Ratelimit-Reset"
)

// setHeaders shows the binding policy's share, in place of any headers of those names.
func (d *decision) setHeaders(header http.Header) {
	if d.shown.Policy != nil {
		d.values = [3]string{
			d.shown.Policy.CapacityText(),
			strconv.FormatInt(d.shown.Result.Remaining, 10),
			strconv.FormatInt(d.resetAt, 10),
		}
		header[headerLimit] = d.values[0:1:1]
		header[headerRemaining] = d.values[1:2:2]
		header[headerReset] = d.values[2:3:3]
	}
	if len(d.items) > 0 {
		d.setIETF(header)
	}
	if len(header["Access-Control-Allow-Origin"]) > 0 {
		expose(header)
	}
}

// ownHeaders are those that scripts of other origins may read where they may read the answer.
var ownHeaders = []string{headerLimit, headerRemaining, headerReset, headerIETFPolicy, headerIETF, "Retry-After"}

// expose lets scripts of other origins read the headers that are there. To browsers * is all of them,
// but where the answer is for requests with credentials it is the name of a header.
func expose(header http.Header) {
	const name = "Access-Control-Expose-Headers"
	exposed := strings.Join(header[name], ", ")
	if strings.TrimSpace(exposed) == "*" && header.Get("Access-Control-Allow-Credentials") != "true" {
		return
	}
	known := strings.ToLower(exposed)
	for _, own := range ownHeaders {
		if len(header[own]) == 0 || slices.Contains(strings.FieldsFunc(known, isListSeparator), strings.ToLower(own)) {
			continue
		}
		if exposed != "" {
			exposed += ", "
		}
		exposed += own
	}
	if exposed != "" {
		header[name] = []string{exposed}
	}
}

func isListSeparator(r rune) bool { return r == ',' || r == ' ' || r == '\t' }

// refuse sets the headers of a refusal. Retry-After is a positive whole number of seconds, which
// all clients understand; where waiting is of no use there is none.
func (h *Handler) refuse(header http.Header, retryAfter time.Duration) {
	header.Set("Cache-Control", "no-store")
	if retryAfter != limiter.Never {
		if h.RetryJitter > 0 {
			retryAfter += rand.N(time.Duration(h.RetryJitter) + 1) //nolint:gosec // spreads clients; nothing depends on it
		}
		header.Set("Retry-After", strconv.FormatInt(max(1, ceilSeconds(retryAfter)), 10))
	}
}

// serve calls the next handler and shows the decision on its final response, however that comes
// about. Only the outermost handler of a request wraps the response.
func (d *decision) serve(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	if d.serving {
		return next.ServeHTTP(w, r)
	}
	d.serving = true
	wrapped := &d.writer
	if wrapped.decision != nil { // it served the routes that led to these error routes
		wrapped = new(headerWriter)
	}
	wrapped.decision, wrapped.request, wrapped.ResponseWriter = d, r, w
	defer wrapped.end() // whatever becomes of the handlers
	err := next.ServeHTTP(wrapped, r)
	if !wrapped.done {
		d.end(r, w.Header(), err)
		d.setHeaders(w.Header())
	}
	return err
}

// headerWriter sets the headers at the last moment before the response's header is written, so
// that they replace those of an upstream. Informational responses pass by; 101 is final.
type headerWriter struct {
	caddyhttp.ResponseWriterWrapper
	decision *decision
	request  *http.Request
	done     bool
	bytes    int64 // of the body, so far
}

// end charges what the response was found to cost.
func (w *headerWriter) end() {
	w.decision.serving = false
	if len(w.decision.debts) > 0 {
		repl, _ := w.request.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
		w.decision.pay(repl, w.bytes)
	}
}

func (w *headerWriter) show(status int) {
	if !w.done {
		w.done = true
		w.decision.respond(w.request, status, w.Header())
		w.decision.setHeaders(w.Header())
	}
}

// WriteHeader implements [http.ResponseWriter].
func (w *headerWriter) WriteHeader(status int) {
	if status >= http.StatusOK || status == http.StatusSwitchingProtocols {
		w.show(status)
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (w *headerWriter) Write(data []byte) (int, error) {
	w.show(http.StatusOK)
	n, err := w.ResponseWriter.Write(data)
	w.bytes += int64(n)
	return n, err
}

// ReadFrom implements [io.ReaderFrom].
func (w *headerWriter) ReadFrom(r io.Reader) (int64, error) {
	w.show(http.StatusOK)
	n, err := w.ResponseWriterWrapper.ReadFrom(r)
	w.bytes += n
	return n, err
}

// FlushError writes the header, as flushing does, and is what [http.ResponseController] calls.
func (w *headerWriter) FlushError() error {
	w.show(http.StatusOK)
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Interface guards
var (
	_ http.ResponseWriter = (*headerWriter)(nil)
	_ io.ReaderFrom       = (*headerWriter)(nil)
)
