package redisratelimit

import (
	"math/bits"
	"slices"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

// quotaStatus is what was last decided about a client's share of a policy.
type quotaStatus struct {
	*limiter.Check
	formats formats       // that show it
	decided time.Duration // when that was: since the Unix epoch by this node's clock
}

// resetAt is when the share is as good as new: Unix seconds by this node's clock, rounded up.
func (q *quotaStatus) resetAt() int64 { return ceilSeconds(q.decided + q.Result.ResetAfter) }

// refund puts units back that the share was charged: nothing is used, or, of a bucket, so much less
// has to be earned. When the window of other units ends is not changed by that.
func (q *quotaStatus) refund(units int64) {
	capacity, result := q.Policy.Capacity(), &q.Result
	result.Remaining = min(capacity, result.Remaining+units)
	switch {
	case result.Remaining == capacity:
		result.ResetAfter = 0
	case q.Policy.IsBucket():
		result.ResetAfter = max(0, result.ResetAfter-earning(q.Policy, units))
	}
}

// earning is how long a client waits for units of a policy, at most its capacity: the part of the
// window that they are of the limit, in whole microseconds. No policy takes longer than an int64 can
// tell to earn its capacity.
func earning(p *limiter.Policy, units int64) time.Duration {
	s := p.Settings()
	high, low := bits.Mul64(uint64(units), uint64(s.Window.Microseconds()))
	micros, _ := bits.Div64(high, low, uint64(s.Limit))
	return time.Duration(micros) * time.Microsecond
}

// record takes over what a handler decided about a share. Once a handler shows it, it is shown as it
// stands after those further in.
func (d *decision) record(check *limiter.Check, f formats, now time.Time) {
	s := d.find(check)
	if s == nil {
		d.statuses = append(d.statuses, quotaStatus{Check: check})
		s = &d.statuses[len(d.statuses)-1]
	}
	if check.Result.Remaining != limiter.Unknown {
		s.Check, s.decided = check, time.Duration(now.UnixNano())
	}
	s.formats.xRateLimit = s.formats.xRateLimit || f.xRateLimit
	s.formats.ietf = s.formats.ietf || f.ietf
}

// find returns the share that a check is about, nil where none was decided.
func (d *decision) find(check *limiter.Check) *quotaStatus {
	for i := range d.statuses[:min(len(d.statuses), fewShares)] {
		if s := &d.statuses[i]; s.Key == check.Key && s.Policy.ID() == check.Policy.ID() {
			return s
		}
	}
	if len(d.statuses) <= fewShares {
		return nil
	}
	if d.places == nil {
		d.places = map[shareName]int{}
	}
	for i := fewShares + len(d.places); i < len(d.statuses); i++ {
		d.places[nameOf(d.statuses[i].Check)] = i
	}
	if i, found := d.places[nameOf(check)]; found {
		return &d.statuses[i]
	}
	return nil
}

// fewShares is how many are looked for one by one, which takes less than a map.
const fewShares = 16

// shareName tells shares apart.
type shareName struct{ policy, key string }

func nameOf(c *limiter.Check) shareName { return shareName{c.Policy.ID(), c.Key} }

// bind finds out which shares bind.
func (d *decision) bind() {
	d.binding, d.shown = nil, nil
	for i := range d.statuses {
		s := &d.statuses[i]
		if s.bindsOver(d.binding) {
			d.binding = s
		}
		if s.formats.xRateLimit && s.bindsOver(d.shown) {
			d.shown = s
		}
	}
}

// bindsOver tells whether a share binds more tightly than one that was met before it, if there is one.
// One of which nobody knows what remains does not bind.
func (q *quotaStatus) bindsOver(earlier *quotaStatus) bool {
	switch {
	case !q.known():
		return false
	case earlier == nil || !earlier.known():
		return true
	}
	return limiter.Binding([]limiter.Check{*earlier.Check, *q.Check}) == 1
}

// known tells whether the store said what remains of the share.
func (q *quotaStatus) known() bool { return q.Result.Remaining != limiter.Unknown }

// restore puts a charge that was given back to what is shown, once bind has been called.
func (d *decision) restore(check *limiter.Check) {
	if s := d.find(check); s != nil {
		s.refund(check.Weight)
	}
}

// items are the shares that RateLimit headers show: of each policy the one that binds.
func (d *decision) items() (items []*quotaStatus) {
	var places map[string]int // of the policies' items, where they are more than few
	for i := range d.statuses {
		s := &d.statuses[i]
		if !s.formats.ietf {
			continue
		}
		at := slices.IndexFunc(items[:min(len(items), fewShares)], s.isOfPolicyOf)
		if place, found := places[s.Policy.Name()]; found {
			at = place
		}
		switch {
		case at < 0:
			items = append(items, s)
			if len(items) > fewShares {
				if places == nil {
					places = map[string]int{}
				}
				places[s.Policy.Name()] = len(items) - 1
			}
		case s.bindsOver(items[at]):
			items[at] = s
		}
	}
	return items
}

// isOfPolicyOf reports whether two shares are of one policy.
func (q *quotaStatus) isOfPolicyOf(other *quotaStatus) bool {
	return q.Policy.Name() == other.Policy.Name()
}
