package answer

import (
	"net/http"
	"strconv"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// maxInteger is the largest integer of a structured field (RFC 9651): it has 15 digits.
const maxInteger = 999_999_999_999_999

// setIETF shows policies and, if a store told them, quotas as lists of structured fields (RFC 9651). A header with a
// number that no structured field can hold is left out. Both are written by hand, for each request: names of policies
// have no characters that need to be escaped.
func (q *Quotas) setIETF(header http.Header, denied *denial) {
	var policySpace, quotaSpace [128]byte
	var shownSpace [4]*status
	policies, quotas := policySpace[:0], quotaSpace[:0]
	policiesFit, quotasFit := true, true
	for _, s := range q.bindingOfPolicies(shownSpace[:0]) {
		var fits bool
		policies, fits = appendPolicy(appendComma(policies), s.policy, s.unit)
		policiesFit = policiesFit && fits
		if check := s.check(); s.remaining != limiter.Unknown {
			if s.remaining == 0 {
				check.Result.ResetAfter = s.resetOfEmpty()
			}
			quotas, fits = appendQuota(appendComma(quotas), &check, denied)
			quotasFit = quotasFit && fits
		}
	}
	if policiesFit && len(policies) > 0 {
		header[Policy] = []string{string(policies)}
	}
	if quotasFit && len(policies) > 0 {
		header[Quota] = []string{string(quotas)}
	}
}

// isNameable reports whether the quota unit of a status's policy has a name that clients know, and all handlers that the
// request has met count in that unit.
func (q *Quotas) isNameable(s *status) bool {
	for i := range q.statuses {
		if other := &q.statuses[i]; other.unit != s.unit && other.policy.Name() == s.policy.Name() {
			return false
		}
	}
	return s.unit != limiter.OtherUnits
}

// bindingOfPolicies appends, of each policy that the RateLimit headers show, the status that binds. Clients take units
// without a name for requests, which is why policies of other units are left out.
func (q *Quotas) bindingOfPolicies(shown []*status) []*status {
statuses:
	for i := range q.statuses {
		s := &q.statuses[i]
		if s.formats&IETF == 0 || !q.isNameable(s) {
			continue
		}
		for j, other := range shown {
			if other.policy.Name() != s.policy.Name() {
				continue
			}
			known, otherKnown := s.remaining != limiter.Unknown, other.remaining != limiter.Unknown
			if known && (!otherKnown || s.isTighter(other)) {
				shown[j] = s
			}
			continue statuses
		}
		shown = append(shown, s)
	}
	return shown
}

// appendComma separates an item of a list from those before it.
func appendComma(list []byte) []byte {
	if len(list) == 0 {
		return list
	}
	return append(list, ", "...)
}

// appendPolicy writes how much a policy allows: q units, earned in w seconds, which is the window, or for a bucket as
// much of it or more as the burst is of the limit. Under one second w is absent, and with calendar periods, which differ
// in length. A policy that counts running requests has no w. What is counted is named (qu) unless it is requests that
// come. The text does not fit if one of the numbers is too large for a structured field.
func appendPolicy(text []byte, p *limiter.Policy, unit limiter.Unit) (item []byte, fits bool) {
	capacity, w := p.Capacity(), int64(0)
	text = append(append(append(text, '"'), p.Name()...), `";q=`...)
	text = strconv.AppendInt(text, capacity, 10)
	if unit == limiter.Bytes {
		text = append(text, `;qu="content-bytes"`...)
	}
	switch {
	case p.CountsRunning:
		text = append(text, `;qu="concurrent-requests"`...)
	case p.Settings.Calendar == "":
		w = int64(earning(p, capacity) / time.Second)
	}
	if w >= 1 {
		text = strconv.AppendInt(append(text, ";w="...), w, 10)
	}
	return text, capacity <= maxInteger && w <= maxInteger
}

// appendQuota writes what a client has left: r units, and t seconds until the reset that headers tell or, after a
// denial (nil: there is none), until the request would pass, at most the longest wait. Nothing says when
// running requests end, which is why they have no t. The text does not fit if one of the numbers is too large for a
// structured field.
func appendQuota(text []byte, c *limiter.Check, denied *denial) (item []byte, fits bool) {
	wait := c.Result.RetryAfter
	switch {
	case c.Result.Passes():
		wait = c.Result.ResetAfter
	case denied != nil && wait != limiter.Never:
		wait = min(wait, denied.longest)
	}
	text = append(append(append(text, '"'), c.Policy.Name()...), `";r=`...)
	text = strconv.AppendInt(text, c.Result.Remaining, 10)
	if c.Policy.CountsRunning || !c.Result.Passes() && wait == limiter.Never {
		return text, c.Result.Remaining <= maxInteger
	}
	t := CeilSeconds(wait)
	text = strconv.AppendInt(append(text, ";t="...), t, 10)
	return text, c.Result.Remaining <= maxInteger && t <= maxInteger
}
