package answer

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// grpc is gRPC's own form (gRPC over HTTP/2, "Responses", Trailers-Only; gRPC-Web): a response of status 200 without a body,
// whose header has the trailers of the call.
var grpc = Form{
	status: statusOK, append: appendTrailers, exposed: []string{grpcStatus, grpcMessage, grpcPushback}, mark: grpcStatus, goesFirst: true,
}

// The names of gRPC's headers in the form that Go's header map has.
const (
	grpcStatus   = "Grpc-Status"
	grpcMessage  = "Grpc-Message"
	grpcPushback = "Grpc-Retry-Pushback-Ms"
)

// maxPushback is the longest wait that a gRPC client is asked for. Clients wait for as long as they are
// asked to, without a bound, and their callers with them.
const maxPushback = time.Minute

// appendTrailers sets the trailers, and appends nothing. The content type is the request's own, written anew.
func appendTrailers(body []byte, header http.Header, q Request, r Refusal) []byte {
	header["Content-Type"] = []string{mediaType(only(q.Header["Content-Type"]))}
	header[grpcStatus] = []string{strconv.Itoa(causes[r.Cause].grpc)}
	header[grpcMessage] = []string{percentEncoded(r.call())}
	delete(header, grpcPushback)
	switch wait := r.Wait.True; {
	case r.Cause.isLasting(), wait == limiter.Never, wait > maxPushback:
		header[grpcPushback] = []string{"-1"} // keeps clients from repeating the call
	case wait > 0:
		header[grpcPushback] = []string{strconv.FormatInt(int64((wait+time.Millisecond-1)/time.Millisecond), 10)}
	}
	return body
}

// percentEncoded writes a text as grpc-message has it: bytes outside of printable ASCII, and the percent
// sign, in hexadecimal.
func percentEncoded(text string) string {
	const digits = "0123456789ABCDEF"
	var encoded strings.Builder
	for _, b := range []byte(text) {
		if ' ' <= b && b <= '~' && b != '%' {
			encoded.WriteByte(b)
			continue
		}
		encoded.Write([]byte{'%', digits[b>>4], digits[b&15]})
	}
	return encoded.String()
}
