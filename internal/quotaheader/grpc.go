package quotaheader

import (
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// The names of gRPC's headers in the form that Go's header map has.
const (
	GRPCStatus   = "Grpc-Status"
	grpcMessage  = "Grpc-Message"
	grpcPushback = "Grpc-Retry-Pushback-Ms"
)

// grpcExposable are the headers of a refused call that scripts of other origins need.
var grpcExposable = []string{GRPCStatus, grpcMessage, grpcPushback}

// Status codes of gRPC.
const (
	codeCanceled          = 1
	codeInvalidArgument   = 3
	codeDeadlineExceeded  = 4
	codeResourceExhausted = 8
	codeUnavailable       = 14
)

// maxPushback is the longest wait that a gRPC client is asked for. Clients wait for as long as they are
// asked to, without a bound, and their callers with them.
const maxPushback = time.Minute

// maxGRPCType is the most bytes of a content type that are taken for gRPC's.
const maxGRPCType = 127

// GRPCType returns the content type that answers a gRPC or gRPC-Web request: the request's own in lower
// case, without parameters. It is empty for any other request, and for a content type that no client of
// gRPC sends.
func GRPCType(request http.Header) string {
	const prefix = "application/grpc"
	values := request["Content-Type"]
	if len(values) != 1 || len(values[0]) < len(prefix) || !strings.EqualFold(values[0][:len(prefix)], prefix) {
		return ""
	}
	kind, _, hasParameters := strings.Cut(values[0], ";")
	kind = strings.TrimRight(kind, " \t")
	if len(kind) > maxGRPCType || strings.ContainsFunc(kind[len(prefix):], isForeignToType) {
		return ""
	}
	if hasParameters {
		if _, _, err := mime.ParseMediaType(values[0]); err != nil {
			return ""
		}
	}
	kind = strings.ToLower(kind)
	form, message, hasMessage := strings.Cut(kind[len(prefix):], "+")
	if (form != "" && form != "-web" && form != "-web-text") || (hasMessage && message == "") {
		return ""
	}
	return kind
}

// isForeignToType reports whether a character may not stand in gRPC's content types.
func isForeignToType(r rune) bool {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
		return false
	}
	return !strings.ContainsRune("+-._", r)
}

// RefusedCall is a refusal in gRPC's own form: a response of status 200 without a body, whose header has
// the trailers of the call.
type RefusedCall struct {
	code    int
	message string
	wait    time.Duration // until the call may be repeated: 0 is unknown, [limiter.Never] never
}

// DeniedCall is the refusal of a call that a check denies, which may be repeated after a time.
func DeniedCall(denier *limiter.Check, wait time.Duration) RefusedCall {
	return RefusedCall{codeResourceExhausted, "rate limit exceeded" + ofPolicy(denier, wait), wait}
}

// CrowdedCall is the refusal of a call because too many others are running.
func CrowdedCall(denier *limiter.Check, wait time.Duration) RefusedCall {
	return RefusedCall{codeResourceExhausted, "too many calls are running" + ofPolicy(denier, wait), wait}
}

// BannedCall is the refusal of a call because of those before it, whatever the quota.
func BannedCall(denier *limiter.Check, wait time.Duration) RefusedCall {
	return RefusedCall{codeResourceExhausted, "banned for too many calls" + ofPolicy(denier, wait), wait}
}

// UndecidedCall is the refusal of a call that no store could decide.
func UndecidedCall(wait time.Duration) RefusedCall {
	return RefusedCall{codeUnavailable, "rate limits are unavailable", wait}
}

// CallRefusedBy is the refusal of a call that would be refused with a status of HTTP, without a decision.
func CallRefusedBy(status int) RefusedCall {
	switch status {
	case http.StatusBadRequest:
		return RefusedCall{codeInvalidArgument, "a value that rate limits count by is missing", limiter.Never}
	case http.StatusGatewayTimeout:
		return RefusedCall{codeDeadlineExceeded, "the deadline has passed", 0}
	case http.StatusTooEarly:
		return RefusedCall{codeUnavailable, "the handshake is not complete", 0}
	case http.StatusServiceUnavailable:
		return RefusedCall{codeUnavailable, "too many requests are held for rate limits", 0}
	}
	return RefusedCall{codeCanceled, "the client has left", 0}
}

// ofPolicy ends a message for clients' logs, where headers do not appear.
func ofPolicy(denier *limiter.Check, wait time.Duration) string {
	text := ": policy " + denier.Policy.Name()
	if wait != limiter.Never {
		text += ", retry in " + strconv.FormatInt(CeilSeconds(wait), 10) + " s"
	}
	return text
}

// Write answers a request with those headers with the refusal. The content type is that of [GRPCType].
func (c RefusedCall) Write(w http.ResponseWriter, request http.Header, contentType string) {
	header := w.Header()
	header["Content-Type"] = []string{contentType}
	header[GRPCStatus] = []string{strconv.Itoa(c.code)}
	header[grpcMessage] = []string{percentEncoded(c.message)}
	delete(header, grpcPushback)
	if c.wait != 0 {
		header[grpcPushback] = []string{c.pushback()}
	}
	if len(header["Access-Control-Allow-Origin"])+len(request["Origin"]) > 0 {
		expose(header, grpcExposable)
	}
	w.WriteHeader(http.StatusOK)
}

// pushback is the wait in milliseconds, rounded up; -1 keeps clients from repeating the call.
func (c RefusedCall) pushback() string {
	if c.wait == limiter.Never || c.wait > maxPushback {
		return "-1"
	}
	return strconv.FormatInt(int64((c.wait+time.Millisecond-1)/time.Millisecond), 10)
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
