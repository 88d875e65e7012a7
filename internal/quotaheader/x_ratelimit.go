package quotaheader

import (
	"net/http"
	"strconv"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// setXRateLimit shows the quota that binds: its capacity, what is left of it, and when, in seconds since the Unix epoch
// by this node's clock, the whole quota is free again or, after a denial, the request would pass. X-RateLimit-Reset is
// absent if that is never.
func (q *Quotas) setXRateLimit(header http.Header, binding *status) {
	reset := q.passesAt
	if reset == 0 {
		if reset = binding.Result.ResetAfter; reset != limiter.Never {
			reset = later(binding.decided, reset)
		}
	}
	var space [60]byte // one allocation holds the text of all three numbers
	text := strconv.AppendInt(space[:0], binding.Policy.Capacity(), 10)
	limitEnd := len(text)
	text = strconv.AppendInt(text, binding.Result.Remaining, 10)
	remainingEnd := len(text)
	all := string(strconv.AppendInt(text, CeilSeconds(reset), 10))
	q.values = [3]string{all[:limitEnd], all[limitEnd:remainingEnd], all[remainingEnd:]}
	header[Limit] = q.values[0:1:1]
	header[Remaining] = q.values[1:2:2]
	if reset == limiter.Never {
		delete(header, Reset)
	} else {
		header[Reset] = q.values[2:3:3]
	}
}
