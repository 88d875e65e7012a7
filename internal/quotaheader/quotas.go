// Package quotaheader shows clients their quotas: the X-RateLimit-* headers, the RateLimit headers
// of draft-ietf-httpapi-ratelimit-headers-11, the headers of a refusal, and problem details.
package quotaheader

import (
	"fmt"
	"math"
	"math/bits"
	"net/http"
	"strings"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// Quotas collects what the handlers of one request decided, and shows it. The zero value is empty.
// It must not be copied once it holds anything.
type Quotas struct {
	statuses []status      // in the order in which the request met the policies
	formats  Formats       // of all statuses
	passesAt time.Duration // when the denied request would pass, since the Unix epoch; 0: it is not denied, limiter.Never: never
	longest  time.Duration // the longest wait that the headers of a denied request tell; 0: it is not denied
	space    [1]status     // memory for statuses, if the request meets one policy
	values   [3]string     // memory for the values of headers
}

// status is the last decision about one quota.
type status struct {
	*limiter.Check
	formats Formats       // of the handlers that show the quota
	decided time.Duration // when the quota was decided, since the Unix epoch by this node's clock
}

// Record adds the checks that one handler had decided at an instant of this node's clock, each of another quota. A
// quota that an earlier handler decided is shown as it stands now. The checks are kept.
func (q *Quotas) Record(checks []limiter.Check, formats Formats, now time.Time) {
	earlier, decided := len(q.statuses), time.Duration(now.UnixNano())
	switch {
	case q.statuses != nil:
	case len(checks) <= len(q.space):
		q.statuses = q.space[:0]
	default:
		q.statuses = make([]status, 0, len(checks))
	}
	q.formats |= formats
	for i := range checks {
		check, known := &checks[i], (*status)(nil)
		if earlier > 0 {
			known = find(q.statuses[:earlier], check)
		}
		if known == nil {
			q.statuses = append(q.statuses, status{check, formats, decided})
			continue
		}
		known.formats |= formats
		if check.Result.Remaining != limiter.Unknown {
			known.Check, known.decided = check, decided
		}
	}
}

// find returns the status of a check's quota; nil if there is none.
func find(statuses []status, check *limiter.Check) *status {
	for i := range statuses {
		if statuses[i].SameQuota(check) {
			return &statuses[i]
		}
	}
	return nil
}

// SetHeaders sets the headers of all formats, in place of any headers of the same names. Scripts of other origins may
// read the headers if the response allows an origin, or if the request has one, which may be allowed later.
func (q *Quotas) SetHeaders(header, request http.Header) {
	if q.formats&XRateLimit != 0 {
		if binding := q.binding(XRateLimit); binding != nil {
			q.setXRateLimit(header, binding)
		}
	}
	if q.formats&IETF != 0 {
		q.setIETF(header)
	}
	Expose(header, request, exposable)
}

// Binding returns the check whose policy binds over all handlers; nil if no store told what remains of a quota.
func (q *Quotas) Binding() *limiter.Check {
	if binding := q.binding(0); binding != nil {
		return binding.Check
	}
	return nil
}

// binding returns the status whose policy binds, of those that a format shows, or of all of them (0). A status does not
// bind if what remains of its quota is unknown. It is nil if none binds.
func (q *Quotas) binding(format Formats) (binding *status) {
	for i := range q.statuses {
		s := &q.statuses[i]
		switch {
		case s.formats&format != format || s.Result.Remaining == limiter.Unknown:
		case binding == nil || limiter.Binding([]limiter.Check{*binding.Check, *s.Check}) == 1:
			binding = s
		}
	}
	return binding
}

// Refund adds the units of a check back to the quota that is shown.
func (q *Quotas) Refund(check *limiter.Check) {
	s := find(q.statuses, check)
	if s == nil {
		return
	}
	most, result := s.Policy.Capacity()-s.Reserve, &s.Result
	result.Remaining = min(most, result.Remaining+check.Weight)
	switch {
	case result.Remaining == most:
		result.ResetAfter = 0 // nothing is used any more
	case s.Policy.IsBucket():
		result.ResetAfter = max(0, result.ResetAfter-earning(s.Policy, check.Weight))
	} // the end of a window that other units began stays
}

// earning is how long it takes to earn units of a policy, at most its capacity, in whole microseconds:
// the fraction of the window that the units are of the limit. The capacity is earned within what an
// int64 holds.
func earning(p *limiter.Policy, units int64) time.Duration {
	s := p.Settings
	high, low := bits.Mul64(uint64(units), uint64(s.Window.Microseconds()))
	micros, _ := bits.Div64(high, low, uint64(s.Limit))
	return time.Duration(micros) * time.Microsecond
}

// later returns the time after a wait, or the last time that there is: a block by an override may last for centuries.
func later(at, wait time.Duration) time.Duration { return at + min(wait, math.MaxInt64-at) }

// CeilSeconds rounds a duration up to whole seconds.
func CeilSeconds(d time.Duration) int64 {
	seconds := int64(d / time.Second)
	if d%time.Second > 0 {
		seconds++
	}
	return seconds
}

// Seconds writes a duration in seconds, with as many decimals as it has; -1 is [limiter.Never].
func Seconds(d time.Duration) string {
	if d == limiter.Never {
		return "-1"
	}
	text := fmt.Sprintf("%d.%06d", d/time.Second, d%time.Second/time.Microsecond)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}
