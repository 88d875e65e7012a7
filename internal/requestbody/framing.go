package requestbody

import (
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"golang.org/x/net/http/httpguts"
)

// MayHave reports whether a request may have a body. Without a length it may, also one of no bytes.
func MayHave(r *http.Request) bool {
	return r.Body != nil && r.Body != http.NoBody && r.ContentLength != 0
}

// resultOfHead returns the result of a request whose head says that nothing can be read, else undecided. Caddy wraps
// the body also where there is none, so that the length decides; without a length there may be a body, also of no bytes.
func resultOfHead(r *http.Request, size int64) ReadResult {
	switch {
	case !MayHave(r):
		return Absent
	case r.Method == http.MethodConnect, asksForUpgrade(r.Header), caddyhttp.IsIncremental(r.Header):
		return Streamed
	case r.ContentLength > size:
		return TooLarge
	}
	return undecided
}

// dropFraming takes the fields out of a body's trailers that no trailers may have (RFC 9110, section 6.5.1). net/http takes
// them where another field is announced. A proxy that gets trailers before the body, as here, fails at those that frame a
// message, and may take its backend for broken.
func dropFraming(trailers http.Header) {
	for _, name := range []string{"Content-Length", "Trailer", "Transfer-Encoding"} {
		delete(trailers, name)
	}
}

// asksForUpgrade reports whether a request asks to go on in another protocol (RFC 9110, section 7.8).
func asksForUpgrade(header http.Header) bool {
	return len(header["Upgrade"]) > 0 && httpguts.HeaderValuesContainsToken(header["Connection"], "upgrade")
}
