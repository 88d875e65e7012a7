package quotaheader

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// The names of headers in the form that Go's header map has.
const (
	Limit      = "X-Ratelimit-Limit"
	Remaining  = "X-Ratelimit-Remaining"
	Reset      = "X-Ratelimit-Reset"
	RetryAfter = "Retry-After"

	// Policy and Quota are those of draft-ietf-httpapi-ratelimit-headers-11.
	Policy = "Ratelimit-Policy"
	Quota  = "Ratelimit"
)

// exposable are the headers that scripts of other origins may read where they may read the answer.
var exposable = []string{Limit, Remaining, Reset, Policy, Quota, RetryAfter}

// expose lets scripts of other origins read those of the headers that are set: of a response that allows an origin, or
// to a request that has one, because the origin may be allowed later. To browsers * means all of them, but in an answer
// to a request with credentials it is the name of a header.
func expose(header, request http.Header, exposable []string) {
	const name = "Access-Control-Expose-Headers"
	if len(header["Access-Control-Allow-Origin"])+len(request["Origin"]) == 0 {
		return
	}
	exposed := strings.Join(header[name], ", ")
	if strings.TrimSpace(exposed) == "*" && header.Get("Access-Control-Allow-Credentials") != "true" {
		return
	}
	known := strings.ToLower(exposed)
	for _, own := range exposable {
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

// maxRetryAfter is the longest wait that a refusal tells. Timers of node count milliseconds in 31 bits: a client that
// sleeps for longer comes back at once.
const maxRetryAfter = math.MaxInt32 / 1000 * time.Second

// Wait is how long a refused request has to wait: what its headers tell clients, and what is true.
type Wait struct {
	True time.Duration // [limiter.Never]: it cannot pass
	told time.Duration // at most maxRetryAfter
}

// SetRefusal sets the headers of a refusal. Retry-After is a positive whole number of seconds, which
// all clients understand; it is absent for [limiter.Never]. Up to the jitter is added to it at random, or taken from
// maxRetryAfter if the wait is longer. The true wait of the result has the jitter as well; none counts as a second.
func SetRefusal(header http.Header, retryAfter, jitter time.Duration) Wait {
	values := &[2]string{"no-store"}
	header["Cache-Control"] = values[0:1:1]
	if retryAfter == limiter.Never {
		return Wait{True: limiter.Never}
	}
	var spread time.Duration
	if jitter > 0 {
		spread = rand.N(jitter + 1) //nolint:gosec // spreads clients; nothing depends on it
	}
	wait := Wait{True: later(retryAfter, spread), told: maxRetryAfter - spread}
	if retryAfter <= maxRetryAfter {
		wait.True = min(wait.True, maxRetryAfter)
		if wait.True <= 0 {
			wait.True = time.Second
		}
		wait.told = wait.True
	}
	values[1] = strconv.FormatInt(CeilSeconds(wait.told), 10)
	header[RetryAfter] = values[1:2:2]
	return wait
}

// Seconds writes a duration in seconds, with as many decimals as it has; -1 is [limiter.Never].
func Seconds(d time.Duration) string {
	if d == limiter.Never {
		return "-1"
	}
	text := fmt.Sprintf("%d.%06d", d/time.Second, d%time.Second/time.Microsecond)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}
