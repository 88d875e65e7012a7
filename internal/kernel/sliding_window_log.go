package kernel

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

// newEntry is what a take appends to a log: its tick, the total before the oldest live entry, and the total after it.
type newEntry struct{ tick, before, total int64 }

func newEntryOf(n Numbers) newEntry { return newEntry{n.A, n.B, n.C} }

func (e newEntry) numbers() Numbers { return Numbers{e.tick, e.before, e.total} }

// live returns the entries that still count now, the total before them, and the instant to count from: now, or a later
// one if the clock ran backwards. Entries more than one window ahead of now
// were written by a broken clock and count as none.
func (*slidingWindowLog) live(s State, now int64, t *Params) (live []LogEntry, before, at int64) {
	if s.Log == nil || len(s.Log.Entries) == 0 {
		return nil, 0, now
	}
	entries := s.Log.Entries
	_, written := s.Log.newest(now)
	if written-now > t.Window {
		return nil, 0, now
	}
	at = max(now, written)
	dead := deadEntries(entries, now, at-t.Window)
	if dead == 0 {
		return entries, s.Log.Before, at
	}
	return entries[dead:], entries[dead-1].total(), at
}

// deadEntries counts the entries with tick <= horizon. It gallops from the head, where they are.
func deadEntries(entries []LogEntry, now, horizon int64) int {
	reach := 1
	for reach <= len(entries) && entries[reach-1].tick(now) <= horizon {
		reach *= 2
	}
	low, high := reach/2, min(reach, len(entries))
	return low + sort.Search(high-low, func(i int) bool { return entries[low+i].tick(now) > horizon })
}

func (k *slidingWindowLog) Decide(s State, now int64, t *Params, weight, reserve int64) (v Verdict) {
	live, before, at := k.live(s, now, t)
	if len(live) == 0 {
		return emptyLogVerdict(now, t, weight)
	}
	newest := live[len(live)-1]
	used := units(newest.total(), before)
	entry := newEntry{at, before, newest.total() + weight}
	switch {
	case weight == 0:
		if used > 0 { // an entry without units is one of a charge that found the log full
			v.Reset = newest.tick(now) + t.Window - now
		}
	case used+weight+reserve <= t.Limit:
		used += weight
		entry.tick = max(at, newest.tick(now))
		v.lead = entry.tick - at
		v.Reset = entry.tick + t.Window - now
	default:
		room := t.Limit - weight - reserve
		blocker := sort.Search(len(live), func(i int) bool { return units(newest.total(), live[i].total()) <= room })
		v.Wait = live[blocker].tick(now) + t.Window - now
		v.Reset = newest.tick(now) + t.Window - now
	}
	v.Next = entry.numbers()
	v.Remaining = max(0, t.Limit-used)
	return v
}

// emptyLogVerdict is the verdict of a state without live entries.
func emptyLogVerdict(now int64, t *Params, weight int64) Verdict {
	v := Verdict{Remaining: t.Limit - weight, Next: newEntry{tick: now, total: weight}.numbers()}
	if weight > 0 {
		v.Reset = t.Window
	}
	return v
}

// Take drops the dead entries and appends the new one.
func (k *slidingWindowLog) Take(s State, t *Params, v Verdict, _ bool) State {
	next := newEntryOf(v.Next)
	live, _, _ := k.live(s, next.tick-v.lead, t)
	if s.Log == nil {
		s.Log = &UnitLog{}
	}
	if s.Log.leads != nil {
		s.Log.replaceLeads(live)
	}
	s.Log.Entries, s.Log.Before = grown(live), next.before
	entry := NewLogEntry(next.tick, next.total)
	s.Log.Entries = append(s.Log.Entries, entry)
	s.Log.keepLead(entry, v.lead)
	return s
}

func (*slidingWindowLog) Receipt(v Verdict) Receipt { return Receipt{First: newEntryOf(v.Next).tick} }

// LogRewritten is the most entries after one that is refunded. To rewrite as many takes Redis about
// half a millisecond; an entry with more after it stays until it is dead.
const LogRewritten = 1000

// Refund makes one live entry of the receipt's tick and weight smaller, or removes it: the first with at
// most LogRewritten entries after it. The receipt is the tick.
func (k *slidingWindowLog) Refund(s State, now int64, t *Params, weight, refunded int64, r Receipt) State {
	live, before, _ := k.live(s, now, t)
	first := sort.Search(len(live), func(i int) bool { return live[i].tick(now) >= r.First })
	first = max(first, len(live)-1-LogRewritten)
	for i := first; i < len(live) && live[i].tick(now) == r.First; i++ {
		previous := before
		if i > 0 {
			previous = live[i-1].total()
		}
		if units(live[i].total(), previous) != weight {
			continue
		}
		leads := s.Log.replaceLeads(live[:i])
		for j := i; j < len(live); j++ {
			lead := leads[live[j]]
			live[j] = NewLogEntry(live[j].tick(now), live[j].total()-refunded)
			if j > i || refunded < weight {
				s.Log.keepLead(live[j], lead)
			}
		}
		if refunded == weight {
			last := len(s.Log.Entries) - 1
			copy(live[i:], live[i+1:])
			s.Log.Entries = s.Log.Entries[:last]
		}
		break
	}
	return s
}

// Charge appends an entry. The weight is cut so that all live units stay distinct in a running
// total.
func (k *slidingWindowLog) Charge(s State, now int64, t *Params, weight int64) State {
	live, before, at := k.live(s, now, t)
	total, tick := before, at
	if len(live) > 0 {
		newest := live[len(live)-1]
		total, tick = newest.total(), max(at, newest.tick(now))
	}
	weight = min(weight, LogUnits-1-units(total, before))
	return k.Take(s, t, Verdict{Next: newEntry{tick, before, total + weight}.numbers(), lead: tick - at}, false)
}

// owedEntries is the most debts of a log. Entries that are next to one another are one debt, at the tick
// of the last of them: it counts for longer than it would, never shorter.
const owedEntries = 16

// Owed returns the units of entries that are newer than all of the other state, or of the same tick and
// more.
func (k *slidingWindowLog) Owed(s, beyond State, now int64, t *Params) (debts []Debt) {
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
		case last >= 0 && debts[last].At == tick:
			debts[last].Amount += amount - less
		default:
			debts = append(debts, Debt{tick, amount - less})
		}
	}
	return merged(debts, owedEntries)
}

// merged returns the debts in their order, joined to at most `most`.
func merged(debts []Debt, most int) []Debt {
	each := (len(debts) + most - 1) / most
	if each < 2 {
		return debts
	}
	kept := debts[:0]
	for group := range slices.Chunk(debts, each) {
		sum := Debt{At: group[len(group)-1].At}
		for _, d := range group {
			sum.Amount += d.Amount
		}
		kept = append(kept, sum)
	}
	return kept
}

// Repay appends an entry, at the debt's tick or that of the newest entry, whichever is later.
func (k *slidingWindowLog) Repay(s State, now int64, t *Params, d Debt) (State, int64) {
	live, before, at := k.live(s, now, t)
	total, tick := before, min(d.At, at)
	if len(live) > 0 {
		newest := live[len(live)-1]
		total, tick = newest.total(), max(tick, newest.tick(now))
	}
	repaid := min(d.Amount, t.Limit-units(total, before))
	if tick <= at-t.Window || repaid < 1 {
		return s, 0
	}
	if s.Log == nil {
		s.Log = &UnitLog{}
	}
	entry := NewLogEntry(tick, total+repaid)
	s.Log.Entries, s.Log.Before = append(grown(live), entry), before
	s.Log.keepLead(entry, max(0, tick-at))
	return s, repaid
}

// RestoreState returns one entry with all units, at the tick of the newest one.
func (*slidingWindowLog) RestoreState(used, resets, _ int64, t *Params) State {
	return State{Log: &UnitLog{Entries: []LogEntry{NewLogEntry(resets-t.Window, used)}}}
}

// Expires of a log whose entries were all refunded is an instant that has passed in every tick.
func (*slidingWindowLog) Expires(s State, now int64, t *Params) int64 {
	if s.Log == nil || len(s.Log.Entries) == 0 {
		return 0
	}
	return s.Log.Entries[len(s.Log.Entries)-1].tick(now) + t.Window
}

// Again ends with the newest entry: the reset does not tell when the entries before that one end.
func (*slidingWindowLog) Again(reset int64, _ *Params, _, _ int64) int64 { return reset }

// Describe describes the first and the last entry.
func (*slidingWindowLog) Describe(s State, now int64, t *Params) map[string]any {
	first, last := s.Log.Entries[0], s.Log.Entries[len(s.Log.Entries)-1]
	return map[string]any{
		"first_entry": t.instant(first.tick(now)), "last_entry": t.instant(last.tick(now)),
		"units_after_first_entry": units(last.total(), first.total()),
	}
}
