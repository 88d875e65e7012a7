package limiter

import (
	"slices"
	"sort"
)

// slidingWindowLog keeps every admitted request for one window and sums their units: exactly the
// limit in any span of one window's length, at the price of an entry per request. Lua twin:
// scripts/sliding_window_log.lua.
//
// The state: log holds the entries, oldest first, with running totals, so that the units of any
// stretch are one subtraction.
type slidingWindowLog struct{}

// live returns the entries that still count now, the total before them, and the instant that stands
// for now, which is later where the clock ran backwards. Entries more than one window ahead of now
// were written by a broken clock and count as none.
func (slidingWindowLog) live(s state, now int64, t *params) (live []logEntry, before, at int64) {
	if s.log == nil || len(s.log.entries) == 0 {
		return nil, 0, now
	}
	entries := s.log.entries
	_, written := s.log.newest(now)
	if written-now > t.window {
		return nil, 0, now
	}
	at = max(now, written)
	dead := deadEntries(entries, now, at-t.window)
	if dead == 0 {
		return entries, s.log.before, at
	}
	return entries[dead:], entries[dead-1].total(), at
}

// deadEntries counts the entries with tick <= horizon. It gallops from the head, where they are.
func deadEntries(entries []logEntry, now, horizon int64) int {
	reach := 1
	for reach <= len(entries) && entries[reach-1].tick(now) <= horizon {
		reach *= 2
	}
	low, high := reach/2, min(reach, len(entries))
	return low + sort.Search(high-low, func(i int) bool { return entries[low+i].tick(now) > horizon })
}

func (k slidingWindowLog) decide(s state, now int64, t *params, weight, reserve int64) verdict {
	live, before, at := k.live(s, now, t)
	if len(live) == 0 {
		return emptyLogVerdict(now, t, weight)
	}
	newest := live[len(live)-1]
	used := units(newest.total(), before)
	v := verdict{a: at, b: before, c: newest.total() + weight}
	switch {
	case weight == 0:
		if used > 0 { // an entry without units is one of a charge that found the log full
			v.reset = newest.tick(now) + t.window - now
		}
	case used+weight+reserve <= t.limit:
		used += weight
		v.a = max(at, newest.tick(now))
		v.lead = v.a - at
		v.reset = v.a + t.window - now
	default:
		room := t.limit - weight - reserve
		blocker := sort.Search(len(live), func(i int) bool { return units(newest.total(), live[i].total()) <= room })
		v.wait = live[blocker].tick(now) + t.window - now
		v.reset = newest.tick(now) + t.window - now
	}
	v.remaining = max(0, t.limit-used)
	return v
}

// emptyLogVerdict is the verdict of a state without live entries.
func emptyLogVerdict(now int64, t *params, weight int64) verdict {
	v := verdict{remaining: t.limit - weight, a: now, c: weight}
	if weight > 0 {
		v.reset = t.window
	}
	return v
}

// take drops the dead entries and appends the new one. The verdict's a is its tick, b the total
// before the oldest live entry, c the total after the new one.
func (k slidingWindowLog) take(s state, t *params, v verdict, _ bool) state {
	live, _, _ := k.live(s, v.a-v.lead, t)
	if s.log == nil {
		s.log = &unitLog{}
	}
	if s.log.leads != nil {
		s.log.replaceLeads(live)
	}
	s.log.entries, s.log.before = grown(live), v.b
	entry := newLogEntry(v.a, v.c)
	s.log.entries = append(s.log.entries, entry)
	s.log.keepLead(entry, v.lead)
	return s
}

func (slidingWindowLog) receipt(v verdict) receipt { return receipt{first: v.a} }

// logRewritten is the most entries after one that is refunded. To rewrite as many takes Redis about
// half a millisecond; an entry with more after it stays until it is dead.
const logRewritten = 1000

// refund makes one live entry of the receipt's tick and weight smaller, or removes it: the first with at
// most logRewritten entries after it. The receipt is the tick.
func (k slidingWindowLog) refund(s state, now int64, t *params, weight, refunded int64, r receipt) state {
	live, before, _ := k.live(s, now, t)
	first := sort.Search(len(live), func(i int) bool { return live[i].tick(now) >= r.first })
	first = max(first, len(live)-1-logRewritten)
	for i := first; i < len(live) && live[i].tick(now) == r.first; i++ {
		previous := before
		if i > 0 {
			previous = live[i-1].total()
		}
		if units(live[i].total(), previous) != weight {
			continue
		}
		leads := s.log.replaceLeads(live[:i])
		for j := i; j < len(live); j++ {
			lead := leads[live[j]]
			live[j] = newLogEntry(live[j].tick(now), live[j].total()-refunded)
			if j > i || refunded < weight {
				s.log.keepLead(live[j], lead)
			}
		}
		if refunded == weight {
			last := len(s.log.entries) - 1
			copy(live[i:], live[i+1:])
			s.log.entries = s.log.entries[:last]
		}
		break
	}
	return s
}

// charge appends an entry. The weight is cut so that all live units stay distinct in a running
// total.
func (k slidingWindowLog) charge(s state, now int64, t *params, weight int64) state {
	live, before, at := k.live(s, now, t)
	total, tick := before, at
	if len(live) > 0 {
		newest := live[len(live)-1]
		total, tick = newest.total(), max(at, newest.tick(now))
	}
	weight = min(weight, logUnits-1-units(total, before))
	return k.take(s, t, verdict{a: tick, b: before, c: total + weight, lead: tick - at}, false)
}

// owedEntries is the most debts of a log. Entries that are next to one another are one debt, at the tick
// of the last of them: it counts for longer than it would, never shorter.
const owedEntries = 16

// owed returns the units of entries that are newer than all of the other state, or of the same tick and
// more.
func (k slidingWindowLog) owed(s, beyond state, now int64, t *params) (debts []debt) {
	live, before, _ := k.live(s, now, t)
	known := map[int64]int64{}
	others, total, _ := k.live(beyond, now, t)
	for i := range others {
		known[others[i].tick(now)] += units(others[i].total(), total)
		total = others[i].total()
	}
	for i := range live {
		tick, amount := live[i].tick(now), units(live[i].total(), before)
		before = live[i].total()
		less := min(amount, known[tick])
		known[tick] -= less
		switch last := len(debts) - 1; {
		case amount == less:
		case last >= 0 && debts[last].at == tick:
			debts[last].amount += amount - less
		default:
			debts = append(debts, debt{tick, amount - less})
		}
	}
	return merged(debts, owedEntries)
}

// merged returns at most so many debts, in their order.
func merged(debts []debt, most int) []debt {
	each := (len(debts) + most - 1) / most
	if each < 2 {
		return debts
	}
	kept := debts[:0]
	for group := range slices.Chunk(debts, each) {
		sum := debt{at: group[len(group)-1].at}
		for _, d := range group {
			sum.amount += d.amount
		}
		kept = append(kept, sum)
	}
	return kept
}

// repay appends an entry, at the debt's tick or that of the newest entry, whichever is later.
func (k slidingWindowLog) repay(s state, now int64, t *params, d debt) (state, int64) {
	live, before, at := k.live(s, now, t)
	total, tick := before, min(d.at, at)
	if len(live) > 0 {
		newest := live[len(live)-1]
		total, tick = newest.total(), max(tick, newest.tick(now))
	}
	repaid := min(d.amount, t.limit-units(total, before))
	if tick <= at-t.window || repaid < 1 {
		return s, 0
	}
	if s.log == nil {
		s.log = &unitLog{}
	}
	entry := newLogEntry(tick, total+repaid)
	s.log.entries, s.log.before = append(grown(live), entry), before
	s.log.keepLead(entry, max(0, tick-at))
	return s, repaid
}

// restoreState returns one entry with all units, at the tick of the newest one.
func (slidingWindowLog) restoreState(used, resets, _ int64, t *params) state {
	return state{log: &unitLog{entries: []logEntry{newLogEntry(resets-t.window, used)}}}
}

// expires of a log whose entries were all refunded is an instant that has passed in every tick.
func (slidingWindowLog) expires(s state, now int64, t *params) int64 {
	if s.log == nil || len(s.log.entries) == 0 {
		return 0
	}
	return s.log.entries[len(s.log.entries)-1].tick(now) + t.window
}

// describe describes the first and the last entry.
func (slidingWindowLog) describe(s state, now int64, t *params) map[string]any {
	first, last := s.log.entries[0], s.log.entries[len(s.log.entries)-1]
	return map[string]any{
		"first_entry": t.instant(first.tick(now)), "last_entry": t.instant(last.tick(now)),
		"units_after_first_entry": units(last.total(), first.total()),
	}
}
