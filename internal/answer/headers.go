package answer

import (
	"net/http"
	"slices"
	"strings"
)

// The names of headers in the form that Go's header map has.
const (
	Limit      = "X-Ratelimit-Limit"
	Remaining  = "X-Ratelimit-Remaining"
	Reset      = "X-Ratelimit-Reset"
	RetryAfter = "Retry-After"

	// ShouldRetry is what the SDKs that Stainless generates obey before any wait.
	ShouldRetry = "X-Should-Retry"

	// Policy and Quota are those of draft-ietf-httpapi-ratelimit-headers-11.
	Policy = "Ratelimit-Policy"
	Quota  = "Ratelimit"
)

// exposable are the headers that scripts of other origins may read if they may read the answer.
var exposable = []string{Limit, Remaining, Reset, Policy, Quota, RetryAfter, ShouldRetry}

// Expose lets scripts of other origins read those of the headers that are set. To browsers * means all headers, but in
// an answer to a request with credentials it is the name of a header. Nothing is exposed unless the answer allows an origin, or
// the request has one, which may be allowed later.
func Expose(header, request http.Header, exposable []string) {
	if len(header["Access-Control-Allow-Origin"])+len(request["Origin"]) == 0 {
		return
	}
	const name = "Access-Control-Expose-Headers"
	exposed := strings.Join(header[name], ", ")
	if strings.TrimSpace(exposed) == "*" && header.Get("Access-Control-Allow-Credentials") != "true" {
		return
	}
	known := strings.FieldsFunc(strings.ToLower(exposed), isListSeparator)
	for _, own := range exposable {
		if len(header[own]) == 0 || slices.Contains(known, strings.ToLower(own)) {
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
