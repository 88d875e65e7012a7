package kernel

import "sort"

// Lease takes units that count from the tick at which they end: none of them is spent later, and whatever
// is spent in a window of the log counts in the takes at its end.
func (k *slidingWindowLog) Lease(s State, now int64, t *Params, weight, reserve int64, wish Wish) (Verdict, Lease, State) {
	v := k.Decide(s, now, t, weight, reserve)
	if v.Wait != 0 {
		return v, Lease{}, s
	}
	wish = t.wishes(wish)
	l := Lease{Units: leasable(v.Remaining-reserve, wish.Units), Lasts: wish.Lasts}
	if weight+l.Units == 0 {
		return v, l, s
	}
	entry := newEntryOf(v.Next)
	if l.Units > 0 {
		live, _, at := k.live(s, now, t)
		entry.tick = at + wish.Lasts
		if len(live) > 0 {
			entry.tick = max(entry.tick, live[len(live)-1].tick(now))
		}
		entry.total += l.Units
		v.Next, v.lead = entry.numbers(), entry.tick-at
	}
	v.Reset = entry.tick + t.Window - now
	l.Receipt = k.Receipt(v)
	return v, l, k.Take(s, t, v, false)
}

// GiveBack takes units off the live entries of the receipt's tick, if at most LogRewritten entries come
// after them.
func (k *slidingWindowLog) GiveBack(s State, now int64, t *Params, back int64, r Receipt) State {
	live, before, _ := k.live(s, now, t)
	first := sort.Search(len(live), func(i int) bool { return live[i].tick(now) >= r.First })
	first = max(first, len(live)-1-LogRewritten)
	if first >= len(live) || live[first].tick(now) != r.First {
		return s
	}
	if first > 0 {
		before = live[first-1].total()
	}
	off, kept, leads := int64(0), live[:first], s.Log.replaceLeads(live[:first])
	for _, entry := range live[first:] {
		tick, total, less := entry.tick(now), entry.total(), int64(0)
		own := units(total, before)
		before = total
		if tick == r.First {
			less = min(back-off, own)
			off += less
		}
		if less == 0 || less < own {
			moved := NewLogEntry(tick, total-off)
			s.Log.keepLead(moved, leads[entry])
			kept = append(kept, moved)
		}
	}
	s.Log.Entries = s.Log.Entries[:len(s.Log.Entries)-len(live)+len(kept)]
	return s
}
