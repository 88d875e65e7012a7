package limiter

import (
	"encoding/binary"
	"slices"
)

// unitLog holds the entries of one state of a sliding window log.
type unitLog struct {
	entries []logEntry
	before  int64 // the running total before the first entry

	// leads says of entries by how much their tick was ahead of the clock; nil before the first lease. In
	// Redis an entry has it behind the total.
	leads map[logEntry]int64
}

// keepLead keeps the lead of an entry, unless it is 0.
func (l *unitLog) keepLead(e logEntry, lead int64) {
	if lead == 0 {
		return
	}
	if l.leads == nil {
		l.leads = map[logEntry]int64{}
	}
	l.leads[e] = lead
}

// replaceLeads begins new leads with those of the entries that stay, and returns the old ones.
func (l *unitLog) replaceLeads(stay []logEntry) map[logEntry]int64 {
	old := l.leads
	l.leads = nil
	if len(old) > 0 {
		for _, e := range stay {
			l.keepLead(e, old[e])
		}
	}
	return old
}

// newest returns the tick of the last entry, and the instant at which that was written.
func (l *unitLog) newest(now int64) (tick, written int64) {
	e := &l.entries[len(l.entries)-1]
	tick = e.tick(now)
	return tick, tick - l.leads[*e]
}

// logEntry is one admitted request, packed as in Redis: its tick modulo 2^48 in 6 bytes, the units
// taken up to and including it modulo 2^40 in 5, both big-endian.
type logEntry [11]byte

const (
	logTicks = 1 << 48
	logUnits = 1 << 40

	// maxLogLimit keeps the units of a window distinct in the 40 bits of a running total.
	maxLogLimit = 1 << 39

	// maxLogWindow keeps the ticks of a log, dead ones included, distinct in their 48 bits: 407 days
	// of microseconds. Longer windows count in milliseconds.
	maxLogWindow = 1 << 45
)

func newLogEntry(tick, total int64) (e logEntry) {
	binary.BigEndian.PutUint32(e[0:], uint32(tick>>16&0xffffffff))
	binary.BigEndian.PutUint16(e[4:], uint16(tick&0xffff))
	e[6] = byte(total >> 32)
	binary.BigEndian.PutUint32(e[7:], uint32(total&0xffffffff))
	return e
}

// tick returns the entry's tick: of all ticks with its residue the one nearest to now.
func (e *logEntry) tick(now int64) int64 {
	residue := int64(binary.BigEndian.Uint32(e[0:]))<<16 | int64(binary.BigEndian.Uint16(e[4:]))
	return now - ((now-residue+logTicks/2)&(logTicks-1) - logTicks/2)
}

// total returns the running total's residue.
func (e *logEntry) total() int64 {
	return int64(e[6])<<32 | int64(binary.BigEndian.Uint32(e[7:]))
}

// units returns what was taken between two running totals.
func units(total, before int64) int64 { return (total - before) & (logUnits - 1) }

// grown returns the entries with room for one more. A new array is a quarter larger than its
// content, half of what append would take for short logs.
func grown(entries []logEntry) []logEntry {
	if len(entries) < cap(entries) {
		return entries
	}
	larger := make([]logEntry, len(entries), len(entries)+len(entries)/4+1)
	copy(larger, entries)
	return larger
}

// coarse returns a copy with few entries. Each entry that is left out is counted with the one after
// it, so that its units count for longer than they would, never shorter.
func (l *unitLog) coarse() *unitLog {
	const few = 8
	c := &unitLog{before: l.before}
	step := (len(l.entries) + few - 1) / few
	for i := len(l.entries) - 1; i >= 0; i -= step {
		c.entries = append(c.entries, l.entries[i])
	}
	slices.Reverse(c.entries)
	return c
}
