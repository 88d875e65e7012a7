package gate

import (
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// answerWriter writes an answer of a handler whose status another package chooses, and whose header deferred handlers of
// headers leave alone.
type answerWriter struct {
	http.ResponseWriter
	note func(status int) // is called before the header is written
}

// WriteHeader implements [http.ResponseWriter].
func (w answerWriter) WriteHeader(status int) {
	w.note(status)
	keepFromDeferred(w.ResponseWriter)
	w.ResponseWriter.WriteHeader(status)
}

// keptHeaders are the headers without which no browser gets on from a page that waits: under the site's own
// Content-Security-Policy it would load no style sheet, and in a cache the page would be the page of all clients.
var keptHeaders = []string{"Cache-Control", "Content-Security-Policy", "Content-Type", "Location", "Retry-After", "Set-Cookie"}

// keepFromDeferred has the header of an answer be kept by handlers of headers further out that change headers once they are
// written: directives with > in a Caddyfile, and all of a block that deletes a header.
func keepFromDeferred(w http.ResponseWriter) {
	var deepest *caddyhttp.ResponseWriterWrapper
	for layer := w; layer != nil; {
		if wrapped := wrappedByHeaders(layer); wrapped != nil {
			deepest = wrapped
		}
		inner, ok := layer.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			break
		}
		layer = inner.Unwrap()
	}
	if deepest == nil {
		return
	}
	kept := keptHeader{&caddyhttp.ResponseWriterWrapper{ResponseWriter: deepest.ResponseWriter}, http.Header{}}
	for _, name := range keptHeaders {
		if values := w.Header().Values(name); len(values) > 0 {
			kept.own[name] = slices.Clone(values)
		}
	}
	deepest.ResponseWriter = kept
}

// headersPackage is the package of Caddy's handler of headers.
const headersPackage = "github.com/caddyserver/caddy/v2/modules/caddyhttp/headers"

// wrappedByHeaders returns what the response writer of a handler of headers writes to; nil of other writers. Caddy exports no
// other way to what is beneath. Should a later Caddy have another one, deferred headers are the site's again, which
// TestChallengeReserve_outer shows.
func wrappedByHeaders(w http.ResponseWriter) *caddyhttp.ResponseWriterWrapper {
	pointer := reflect.ValueOf(w)
	if pointer.Kind() != reflect.Pointer || pointer.Type().Elem().PkgPath() != headersPackage || pointer.Elem().Kind() != reflect.Struct {
		return nil
	}
	field := pointer.Elem().FieldByName("ResponseWriterWrapper")
	if !field.IsValid() || !field.CanInterface() {
		return nil
	}
	wrapped, _ := field.Interface().(*caddyhttp.ResponseWriterWrapper)
	return wrapped
}

// keptHeader writes an answer with its own header, whatever handlers further in have made of it.
type keptHeader struct {
	*caddyhttp.ResponseWriterWrapper
	own http.Header
}

// WriteHeader implements [http.ResponseWriter].
func (w keptHeader) WriteHeader(status int) {
	for _, name := range keptHeaders {
		if values := w.own[name]; len(values) > 0 {
			w.Header()[name] = values
		} else {
			w.Header().Del(name)
		}
	}
	w.ResponseWriterWrapper.WriteHeader(status)
}

// privateWriter keeps a response out of the caches that many clients share.
type privateWriter struct {
	*caddyhttp.ResponseWriterWrapper
	kept bool // the header says so
}

// newPrivateWriter returns the writer of a response that is meant for its client alone.
func newPrivateWriter(w http.ResponseWriter) *privateWriter {
	return &privateWriter{ResponseWriterWrapper: &caddyhttp.ResponseWriterWrapper{ResponseWriter: w}}
}

// keepPrivate has the header say, once, that no shared cache keeps the response.
func (w *privateWriter) keepPrivate() {
	if w.kept {
		return
	}
	w.kept = true
	if control := strings.ToLower(strings.Join(w.Header().Values("Cache-Control"), ",")); !strings.Contains(control, "no-store") {
		w.Header().Add("Cache-Control", "private")
	}
}

// WriteHeader implements [http.ResponseWriter].
func (w *privateWriter) WriteHeader(status int) {
	if status >= http.StatusOK {
		w.keepPrivate()
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (w *privateWriter) Write(data []byte) (int, error) {
	w.keepPrivate()
	return w.ResponseWriter.Write(data)
}

// ReadFrom implements [io.ReaderFrom].
func (w *privateWriter) ReadFrom(r io.Reader) (int64, error) {
	w.keepPrivate()
	return w.ResponseWriterWrapper.ReadFrom(r)
}

// FlushError writes the header, as flushing does. [http.ResponseController] calls it.
func (w *privateWriter) FlushError() error {
	w.keepPrivate()
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Interface guards
var (
	_ http.ResponseWriter = keptHeader{}
	_ http.ResponseWriter = (*privateWriter)(nil)
	_ io.ReaderFrom       = (*privateWriter)(nil)
)
