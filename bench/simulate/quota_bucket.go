package main

// bucket is the state of the buckets. The debt is units times the window, and drains by the limit.
type bucket struct {
	policy
	debt, at int64
	serial   int64 // units granted so far
}

func (s *bucket) drain(now int64) {
	if now > s.at {
		s.debt = max(0, s.debt-(now-s.at)*s.limit)
		s.at = now
	}
}

func (s *bucket) take(now int64, r request) answer {
	// A state that is older than a full bucket drains is as good as none.
	if now-s.at > ceilDiv(s.burst*s.window, s.limit) {
		s.debt, s.at = 0, now
	}
	s.drain(now)
	full := s.burst * s.window
	if over := s.debt + r.units*s.window - full; r.units > 0 && over > 0 {
		return answer{wait: s.at - now + ceilDiv(over, s.limit)}
	}
	s.debt += r.units * s.window
	a := answer{duration: r.duration}
	if r.want > 0 {
		// The units are spent by the lease's end, and what drains until then pays for none of them.
		raised := max(s.debt, r.duration*s.limit)
		if a.leased = leasable(max(0, full-raised)/s.window, r.want); a.leased > 0 {
			s.debt = raised + a.leased*s.window
		}
	}
	s.serial += r.units + a.leased
	a.receipt = s.serial
	return a
}

func (s *bucket) giveBack(now, units, receipt int64) {
	s.drain(now)
	later := s.serial - receipt
	if later > s.debt/s.window {
		return
	}
	s.debt -= max(0, min(units*s.window, s.debt-later*s.window-s.longestLease()*s.limit))
}
