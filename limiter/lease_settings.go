package limiter

import (
	"hash/fnv"
	"time"
)

// MinLease is the shortest duration of [Settings.Lease]. Shorter leases would save nothing.
const MinLease = 5 * time.Millisecond

// MaxLease is the longest one, and the longest that a lease lasts whatever the window.
const MaxLease = time.Second

// checkLease reports what is wrong with the settings of leases.
func (s *Settings) checkLease(a *algorithm) error {
	switch {
	case s.Lease == 0:
		return nil
	case s.Lease < MinLease || s.Lease > MaxLease:
		return &FieldError{"Lease", s.Lease.String(), "use a duration from 5ms to 1s"}
	case s.Calendar != "":
		return &FieldError{"Lease, Window", s.Calendar, "a node may know the end of a calendar period less exactly than a lease lasts; leave the lease out, or use a window such as 720h"}
	case s.Dynamic && a.bursts:
		return &FieldError{"Lease, Algorithm", a.name, "units that were leased under a low limit would drain too fast under a higher one of the same key; use fixed limits, no lease, or another algorithm"}
	case s.MaxDelay != nil:
		return &FieldError{"Lease, MaxDelay", "", "how long a queue holds a request depends on all requests before it; leave one of them out"}
	case len(s.Ban) > 0:
		return &FieldError{"Lease, Ban", "", "Redis counts denials, and sees none of a request that a node decides; leave one of them out"}
	}
	return nil
}

// longestLeaseOf returns the longest lease of a policy's keys on this node: a log and a bucket may admit
// too little by as much as their leases last. It is 0 where leases would be too short.
func longestLeaseOf(s *Settings, a *algorithm, p *params) time.Duration {
	longest := p.longestLease() * p.tick
	switch {
	case a.logs:
		longest /= 2
	case a.bursts:
		longest = min(longest, p.full*p.tick/100)
	}
	if d := min(s.Lease, time.Duration(longest)*time.Microsecond); d >= MinLease {
		return d
	}
	return 0
}

// LongestLease returns for how long a node may lease units of the policy at most: as [Settings.Lease], but
// no longer than a hundredth of the window; of the half of it with sliding_window_log, and of the time in
// which a full bucket drains. It is 0 where there are no leases, or these would be too short.
func (p *Policy) LongestLease() time.Duration { return p.lease }

// saltOf tells policies apart in hashes of keys.
func saltOf(text string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text))
	return h.Sum64()
}
