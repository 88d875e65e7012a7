package answer

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
	statuses []status  // in the order in which the request met the policies
	space    [1]status // memory for statuses, if the request meets one policy
}

// status is the last decision about one quota. It holds what headers and placeholders show of a check, so that it can
// outlive the check.
type status struct {
	policy  *limiter.Policy
	key     limiter.EncodedKey
	reserve int64
	formats Formats       // of the handlers that show the quota
	unit    limiter.Unit  // what the handlers count
	passes  bool          // the check has let its request through
	decided time.Duration // when the quota was decided, since the Unix epoch by this node's clock

	remaining  int64
	wait       time.Duration // until the request passes or, if it has passed, until it passes again (0: by the reset)
	resetAfter time.Duration
}

// check returns the check of a status, with the part of its result that is kept.
func (s *status) check() limiter.Check {
	result := limiter.Result{Remaining: s.remaining, ResetAfter: s.resetAfter}
	if !s.passes {
		result.RetryAfter = s.wait
	}
	return limiter.Check{Policy: s.policy, Key: s.key, Reserve: s.reserve, Result: result}
}

// resetOfEmpty returns what headers tell in place of the reset of a quota of which nothing is left: when a request passes
// again, as clients wait until then. It may be [limiter.Never].
func (s *status) resetOfEmpty() time.Duration {
	if s.wait > 0 {
		return s.wait
	}
	return s.resetAfter
}

// isTighter reports whether the policy of a status binds rather than that of an earlier one.
func (s *status) isTighter(earlier *status) bool {
	return limiter.Binding([]limiter.Check{earlier.check(), s.check()}) == 1
}

// Record adds the checks that one handler had decided at an instant of this node's clock, each of another quota. A
// quota that an earlier handler decided is shown as it stands now.
func (q *Quotas) Record(checks []limiter.Check, formats Formats, now time.Time) {
	earlier, decided := len(q.statuses), time.Duration(now.UnixNano())
	switch {
	case q.statuses != nil:
	case len(checks) <= len(q.space):
		q.statuses = q.space[:0]
	default:
		q.statuses = make([]status, 0, len(checks))
	}
	for i := range checks {
		c, known := &checks[i], (*status)(nil)
		if earlier > 0 {
			known = find(q.statuses[:earlier], c)
		}
		latest := status{
			policy: c.Policy, key: c.Key, reserve: c.Reserve, formats: formats, unit: c.Unit, passes: c.Result.RetryAfter == 0, decided: decided,
			remaining: c.Result.Remaining, wait: c.Result.RetryAfter, resetAfter: c.Result.ResetAfter,
		}
		if latest.passes && latest.remaining == 0 {
			latest.wait = limiter.PassesAgainAfter(c)
		}
		switch {
		case known == nil:
			q.statuses = append(q.statuses, latest)
		case c.Result.Remaining == limiter.Unknown:
			known.formats |= formats
			known.unit = known.unit.Joined(c.Unit)
		default:
			latest.formats |= known.formats
			latest.unit = latest.unit.Joined(known.unit)
			*known = latest
		}
	}
}

// find returns the status of a check's quota; nil if there is none.
func find(statuses []status, check *limiter.Check) *status {
	for i := range statuses {
		if kept := (limiter.Check{Policy: statuses[i].policy, Key: statuses[i].key}); kept.SameQuota(check) {
			return &statuses[i]
		}
	}
	return nil
}

// SetHeaders sets the headers of all formats, in place of any headers of the same names. Scripts of other origins may
// read the headers if the response allows an origin, or if the request has one, which may be allowed later. The headers
// refer to values, which belong to this response alone; nil, or used already: new ones. The refusal of the request says when
// it would pass; nil: the request is not refused.
func (q *Quotas) SetHeaders(header, request http.Header, values *QuotaValues, refusal *RefusalValues) {
	var denied *denial
	if refusal != nil && refusal.denial.longest > 0 {
		denied = &refusal.denial
	}
	formats := Formats(0)
	for i := range q.statuses {
		formats |= q.statuses[i].formats
	}
	if binding := q.binding(XRateLimit); binding != nil {
		if values == nil || values.list[0] != "" {
			values = new(QuotaValues)
		}
		q.setXRateLimit(header, binding, values, denied)
	}
	if formats&IETF != 0 {
		q.setIETF(header, denied)
	}
	Expose(header, request, exposable)
}

// Binding returns the check whose policy binds over all handlers, with what a result says of its quota; false if no store
// told what remains of a quota.
func (q *Quotas) Binding() (check limiter.Check, known bool) {
	binding := q.binding(0)
	if binding == nil {
		return check, false
	}
	return binding.check(), true
}

// binding returns the status whose policy binds, of those that a format shows, or of all of them (0). A status does not
// bind if what remains of its quota is unknown. It is nil if none binds.
func (q *Quotas) binding(format Formats) (binding *status) {
	for i := range q.statuses {
		s := &q.statuses[i]
		switch {
		case s.formats&format != format || s.remaining == limiter.Unknown:
		case binding == nil || s.isTighter(binding):
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
	most := s.policy.Capacity() - s.reserve
	s.remaining = min(most, s.remaining+check.Weight)
	switch {
	case s.remaining == most:
		s.resetAfter = 0 // nothing is used any more
	case s.policy.IsBucket():
		s.resetAfter = max(0, s.resetAfter-earning(s.policy, check.Weight))
	} // the end of a window that other units began stays
}

// Charge takes units that a look is charged from the quota that is shown.
func (q *Quotas) Charge(check *limiter.Check, units int64) {
	s := find(q.statuses, check)
	if s == nil || s.remaining == limiter.Unknown {
		return
	}
	taken := *check
	taken.Look, taken.Credit, taken.Result = false, 0, limiter.AfterCharge(check, units)
	taken.Unit = s.unit
	q.Record([]limiter.Check{taken}, s.formats, time.Unix(0, int64(s.decided)))
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
