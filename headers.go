package redisratelimit

import (
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

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
	if d.shown != nil {
		d.values = [3]string{
			d.shown.Policy.CapacityText(),
			strconv.FormatInt(d.shown.Result.Remaining, 10),
			strconv.FormatInt(d.shown.resetAt(), 10),
		}
		header[headerLimit] = d.values[0:1:1]
		header[headerRemaining] = d.values[1:2:2]
		header[headerReset] = d.values[2:3:3]
	}
	if items := d.items(); len(items) > 0 {
		setIETF(header, items)
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
