package redisratelimit

import (
	"math/bits"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

// share is what was last decided about a client's share of a policy.
type share struct {
	*limiter.Check
	formats formats       // that show it
	decided time.Duration // when that was: since the Unix epoch by this node's clock
}

// resetAt is when the share is as good as new: Unix seconds by this node's clock, rounded up.
func (s *share) resetAt() int64 { return ceilSeconds(s.decided + s.Result.ResetAfter) }

// giveBack puts units back that the share was charged: nothing is used, or, of a bucket, so much less
// has to be earned. When the window of other units ends is not changed by that.
func (s *share) giveBack(units int64) {
	capacity, result := s.Policy.Capacity(), &s.Result
	result.Remaining = min(capacity, result.Remaining+units)
	switch {
	case result.Remaining == capacity:
		result.ResetAfter = 0
	case s.Policy.IsBucket():
		result.ResetAfter = max(0, result.ResetAfter-earning(s.Policy, units))
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

// learn takes over what a handler decided about a share. Once a handler shows it, it is shown as it
// stands after those further in.
func (d *decision) learn(check *limiter.Check, f formats, now time.Time) {
	s := d.find(check)
	if s == nil {
		d.shares = append(d.shares, share{Check: check})
		s = &d.shares[len(d.shares)-1]
	}
	if check.Result.Remaining != limiter.Unknown {
		s.Check, s.decided = check, time.Duration(now.UnixNano())
	}
	s.formats.xRateLimit = s.formats.xRateLimit || f.xRateLimit
	s.formats.ietf = s.formats.ietf || f.ietf
}

// find returns the share that a check is about, nil where none was decided.
func (d *decision) find(check *limiter.Check) *share {
	for i := range d.shares {
		if s := &d.shares[i]; s.Key == check.Key && s.Policy.ID() == check.Policy.ID() {
			return s
		}
	}
	return nil
}

// bind finds out which shares bind.
func (d *decision) bind() {
	d.binding, d.shown = nil, nil
	for i := range d.shares {
		s := &d.shares[i]
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
func (s *share) bindsOver(earlier *share) bool {
	switch {
	case !s.known():
		return false
	case earlier == nil || !earlier.known():
		return true
	}
	return limiter.Binding([]limiter.Check{*earlier.Check, *s.Check}) == 1
}

// known tells whether the store said what remains of the share.
func (s *share) known() bool { return s.Result.Remaining != limiter.Unknown }

// restore puts a charge that was given back to what is shown.
func (d *decision) restore(check *limiter.Check) {
	if s := d.find(check); s != nil {
		s.giveBack(check.Weight)
		d.bind()
	}
}

// items are the shares that RateLimit headers show: of each policy the one that binds.
func (d *decision) items() (items []*share) {
	for i := range d.shares {
		if s := &d.shares[i]; s.formats.ietf {
			items = addItem(items, s)
		}
	}
	return items
}

func addItem(items []*share, s *share) []*share {
	for i, earlier := range items {
		if earlier.Policy.Name() == s.Policy.Name() {
			if s.bindsOver(earlier) {
				items[i] = s
			}
			return items
		}
	}
	return append(items, s)
}
