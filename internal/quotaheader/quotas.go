// Package quotaheader shows clients their quotas: the X-RateLimit-* headers, the RateLimit headers
// of draft-ietf-httpapi-ratelimit-headers-11, the headers of a refusal, and problem details.
package quotaheader

import (
	"math"
	"math/bits"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// Formats are the headers that a handler shows; the zero value shows none.
type Formats struct{ XRateLimit, IETF bool }

// Quotas collects what the handlers of one request decided, and shows it. The zero value is empty.
// It must not be copied once it holds anything.
type Quotas struct {
	statuses []status      // in the order that the policies were met in
	binding  *status       // the one that binds; nil: none was decided
	shown    *status       // the one that binds of those that X-RateLimit headers show
	stale    bool          // which of them bind is to be found out anew
	values   [3]string     // of these headers
	passes   time.Duration // when the denied request would pass, since the Unix epoch; 0: none is denied, limiter.Never: never
	longest  time.Duration // wait that is told of a policy that denies; 0: none is denied
	space    [1]status     // backs statuses of a request that meets one policy

	indexes map[quotaName]int // of statuses beyond the first few
}

// few is how many statuses are searched one by one, which takes less than a map.
const few = 16

// quotaName tells quotas apart.
type quotaName struct {
	policy string
	key    limiter.EncodedKey
}

func nameOf(c *limiter.Check) quotaName { return quotaName{c.Policy.ID(), c.Key} }

// status is the last decision about one quota.
type status struct {
	*limiter.Check
	formats Formats       // that show it
	decided time.Duration // when that was: since the Unix epoch by this node's clock
}

// Record adds the checks that one handler had decided at an instant of this node's clock. A quota that
// an earlier handler decided is shown as it stands now. The checks are kept.
func (q *Quotas) Record(checks []limiter.Check, f Formats, now time.Time) {
	if q.statuses == nil && len(checks) <= len(q.space) {
		q.statuses = q.space[:0]
	} else if q.statuses == nil {
		q.statuses = make([]status, 0, len(checks))
	}
	for i := range checks {
		q.record(&checks[i], f, time.Duration(now.UnixNano()))
	}
	q.stale = true
}

func (q *Quotas) record(check *limiter.Check, f Formats, now time.Duration) {
	s := q.find(check)
	if s == nil {
		q.statuses = append(q.statuses, status{Check: check})
		s = &q.statuses[len(q.statuses)-1]
	}
	if check.Result.Remaining != limiter.Unknown {
		s.Check, s.decided = check, now
	}
	s.formats.XRateLimit = s.formats.XRateLimit || f.XRateLimit
	s.formats.IETF = s.formats.IETF || f.IETF
}

// find returns the status of a check's quota, nil where none was recorded.
func (q *Quotas) find(check *limiter.Check) *status {
	for i := range q.statuses[:min(len(q.statuses), few)] {
		if s := &q.statuses[i]; s.Key == check.Key && s.Policy.ID() == check.Policy.ID() {
			return s
		}
	}
	if len(q.statuses) <= few {
		return nil
	}
	if q.indexes == nil {
		q.indexes = map[quotaName]int{}
	}
	for i := few + len(q.indexes); i < len(q.statuses); i++ {
		q.indexes[nameOf(q.statuses[i].Check)] = i
	}
	if i, found := q.indexes[nameOf(check)]; found {
		return &q.statuses[i]
	}
	return nil
}

// bind finds the statuses that bind, where they may have changed.
func (q *Quotas) bind() {
	if !q.stale {
		return
	}
	q.binding, q.shown, q.stale = nil, nil, false
	for i := range q.statuses {
		s := &q.statuses[i]
		if s.bindsOver(q.binding) {
			q.binding = s
		}
		if s.formats.XRateLimit && s.bindsOver(q.shown) {
			q.shown = s
		}
	}
}

// Binding returns the check whose policy binds over all handlers, nil where none was decided.
func (q *Quotas) Binding() *limiter.Check {
	q.bind()
	if q.binding == nil {
		return nil
	}
	return q.binding.Check
}

// Refund adds the units of a check back to its quota, as far as it was recorded.
func (q *Quotas) Refund(check *limiter.Check) {
	if s := q.find(check); s != nil {
		s.refund(check.Weight)
		q.stale = true
	}
}

// SetHeaders shows the quotas in place of any headers of the same names, by the headers of the request.
func (q *Quotas) SetHeaders(header, request http.Header) {
	q.bind()
	if q.shown != nil {
		q.values[0] = textsOf(q.shown.Policy).capacity
		reset := q.reset()
		q.values[1], q.values[2] = decimals(q.shown.Result.Remaining, CeilSeconds(reset))
		header[Limit] = q.values[0:1:1]
		header[Remaining] = q.values[1:2:2]
		if reset == limiter.Never {
			delete(header, Reset)
		} else {
			header[Reset] = q.values[2:3:3]
		}
	}
	if items := q.items(); len(items) > 0 {
		setIETF(header, items, q.longest)
	}
	expose(header, request, exposable)
}

// decimals writes two numbers, by one allocation for both.
func decimals(a, b int64) (first, second string) {
	var space [40]byte
	text := strconv.AppendInt(space[:0], a, 10)
	border := len(text)
	both := string(strconv.AppendInt(text, b, 10))
	return both[:border], both[border:]
}

// items lists the statuses that RateLimit headers show: of each policy the one that binds.
func (q *Quotas) items() (items []*status) {
	var indexes map[string]int // of the policies' items, where they are more than few
	for i := range q.statuses {
		s := &q.statuses[i]
		if !s.formats.IETF {
			continue
		}
		at := slices.IndexFunc(items[:min(len(items), few)], s.hasPolicyOf)
		if place, found := indexes[s.Policy.Name()]; found {
			at = place
		}
		switch {
		case at < 0:
			items = append(items, s)
			if len(items) > few {
				if indexes == nil {
					indexes = map[string]int{}
				}
				indexes[s.Policy.Name()] = len(items) - 1
			}
		case s.bindsOver(items[at]):
			items[at] = s
		}
	}
	return items
}

// hasPolicyOf reports whether two statuses are of one policy.
func (s *status) hasPolicyOf(other *status) bool { return s.Policy.Name() == other.Policy.Name() }

// Deny has the headers say when the denied request would pass: after a wait from an instant of this node's clock.
func (q *Quotas) Deny(now time.Time, wait Wait) {
	q.passes, q.longest = limiter.Never, maxRetryAfter
	if wait.True != limiter.Never {
		q.passes = later(time.Duration(now.UnixNano()), wait.True)
	}
	if wait.True > maxRetryAfter {
		q.longest = wait.told
	}
}

// reset is when a denied request would pass, or when the shown quota is as good as new: since the Unix epoch by
// this node's clock, or [limiter.Never].
func (q *Quotas) reset() time.Duration {
	switch {
	case q.passes != 0:
		return q.passes
	case q.shown.Result.ResetAfter == limiter.Never:
		return limiter.Never
	}
	return later(q.shown.decided, q.shown.Result.ResetAfter)
}

// later is so much after a time, or the last time that there is: a block by an override may last for centuries.
func later(at, wait time.Duration) time.Duration { return at + min(wait, math.MaxInt64-at) }

// refund adds units back: nothing is used any more, or, of a bucket, so much less has to be earned. The
// end of a window that other units began stays.
func (s *status) refund(units int64) {
	most, result := s.Policy.Capacity()-s.Reserve, &s.Result
	result.Remaining = min(most, result.Remaining+units)
	switch {
	case result.Remaining == most:
		result.ResetAfter = 0
	case s.Policy.IsBucket():
		result.ResetAfter = max(0, result.ResetAfter-earning(s.Policy, units))
	}
}

// bindsOver reports whether a status binds more tightly than an earlier one, which may be nil. A
// status whose remaining units are unknown does not bind.
func (s *status) bindsOver(earlier *status) bool {
	switch {
	case !s.known():
		return false
	case earlier == nil || !earlier.known():
		return true
	}
	return limiter.Binding([]limiter.Check{*earlier.Check, *s.Check}) == 1
}

// known reports whether the store said what remains.
func (s *status) known() bool { return s.Result.Remaining != limiter.Unknown }

// earning is how long it takes to earn units of a policy, at most its capacity, in whole microseconds:
// the fraction of the window that the units are of the limit. The capacity is earned within what an
// int64 holds.
func earning(p *limiter.Policy, units int64) time.Duration {
	s := p.Settings()
	high, low := bits.Mul64(uint64(units), uint64(s.Window.Microseconds()))
	micros, _ := bits.Div64(high, low, uint64(s.Limit))
	return time.Duration(micros) * time.Microsecond
}

// CeilSeconds rounds a duration up to whole seconds.
func CeilSeconds(d time.Duration) int64 {
	seconds := int64(d / time.Second)
	if d%time.Second > 0 {
		seconds++
	}
	return seconds
}
