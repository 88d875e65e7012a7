package limiter

import "sort"

// lease takes units that count from the tick at which they end: none of them is spent later, and whatever
// is spent in a window of the log counts in the takes at its end.
func (k slidingWindowLog) lease(s state, now int64, t *params, weight, reserve int64, wish leaseWish) (verdict, lease, state) {
	v := k.decide(s, now, t, weight, reserve)
	if v.wait != 0 {
		return v, lease{}, s
	}
	wish = t.wishes(wish)
	l := lease{units: leasable(v.remaining-reserve, wish.units), lasts: wish.lasts}
	if weight+l.units == 0 {
		return v, l, s
	}
	if l.units > 0 {
		live, _, at := k.live(s, now, t)
		v.a = at + wish.lasts
		if len(live) > 0 {
			v.a = max(v.a, live[len(live)-1].tick(now))
		}
		v.c, v.lead = v.c+l.units, v.a-at
	}
	v.reset = v.a + t.window - now
	l.receipt = k.receipt(v)
	return v, l, k.take(s, t, v, false)
}

// giveBack takes units off the live entries of the receipt's tick, where at most logRewritten entries come
// after them.
func (k slidingWindowLog) giveBack(s state, now int64, t *params, back int64, r receipt) state {
	live, before, _ := k.live(s, now, t)
	first := sort.Search(len(live), func(i int) bool { return live[i].tick(now) >= r.first })
	first = max(first, len(live)-1-logRewritten)
	if first >= len(live) || live[first].tick(now) != r.first {
		return s
	}
	if first > 0 {
		before = live[first-1].total()
	}
	off, kept, leads := int64(0), live[:first], s.log.replaceLeads(live[:first])
	for _, entry := range live[first:] {
		tick, total, less := entry.tick(now), entry.total(), int64(0)
		own := units(total, before)
		before = total
		if tick == r.first {
			less = min(back-off, own)
			off += less
		}
		if less == 0 || less < own {
			moved := newLogEntry(tick, total-off)
			s.log.keepLead(moved, leads[entry])
			kept = append(kept, moved)
		}
	}
	s.log.entries = s.log.entries[:len(s.log.entries)-len(live)+len(kept)]
	return s
}
