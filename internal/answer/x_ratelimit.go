package answer

import (
	"net/http"
	"strconv"
	"unsafe"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// QuotaValues is memory for the values of one response's headers, which refer to it for as long as anything refers to them.
type QuotaValues struct {
	list [3]string
	text [32]byte // of all three values, if they are no longer; written once, as strings never change
}

// setXRateLimit shows the quota that binds: its capacity, what is left of it, and when, in seconds since the Unix epoch
// by this node's clock, the whole quota is free again or, if nothing is left or after a denial, the request would pass.
// X-RateLimit-Reset is absent if that is never.
func (q *Quotas) setXRateLimit(header http.Header, binding *status, values *QuotaValues, denied *denial) {
	reset := binding.resetAfter
	switch {
	case denied != nil:
		reset = denied.passesAt
	case binding.remaining == 0:
		reset = binding.resetOfEmpty()
	}
	if denied == nil && reset != limiter.Never {
		reset = later(binding.decided, reset)
	}
	text := strconv.AppendInt(values.text[:0], binding.policy.Capacity(), 10)
	limitEnd := len(text)
	text = strconv.AppendInt(text, binding.remaining, 10)
	remainingEnd := len(text)
	text = strconv.AppendInt(text, CeilSeconds(reset), 10) // in memory of its own if it is longer
	all := unsafe.String(unsafe.SliceData(text), len(text))
	values.list = [3]string{all[:limitEnd], all[limitEnd:remainingEnd], all[remainingEnd:]}
	header[Limit] = values.list[0:1:1]
	header[Remaining] = values.list[1:2:2]
	if reset == limiter.Never {
		delete(header, Reset)
	} else {
		header[Reset] = values.list[2:3:3]
	}
}
