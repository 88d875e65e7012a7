package kernel

import (
	"encoding/binary"
	"slices"
)

// UnitLog holds the entries of one state of a sliding window log.
type UnitLog struct {
	Entries []LogEntry
	Before  int64 // the running total before the first entry

	// leads says of entries by how much their tick was ahead of the clock; nil before the first lease. In
	// Redis an entry has it behind the total.
	leads map[LogEntry]int64
}

// keepLead keeps the lead of an entry, unless it is 0.
func (l *UnitLog) keepLead(e LogEntry, lead int64) {
	if lead == 0 {
		return
	}
	if l.leads == nil {
		l.leads = map[LogEntry]int64{}
	}
	l.leads[e] = lead
}

// replaceLeads begins new leads with those of the entries that stay, and returns the old ones.
func (l *UnitLog) replaceLeads(stay []LogEntry) map[LogEntry]int64 {
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
func (l *UnitLog) newest(now int64) (tick, written int64) {
	e := &l.Entries[len(l.Entries)-1]
	tick = e.tick(now)
	return tick, tick - l.leads[*e]
}

// LogEntry is one admitted request, packed as in Redis: its tick modulo 2^48 in 6 bytes, the units
// taken up to and including it modulo 2^40 in 5, both big-endian.
type LogEntry [11]byte

const (
	logTicks = 1 << 48

	// LogUnits is the number of running totals.
	LogUnits = 1 << 40

	// MaxLogLimit keeps the units of a window distinct in the 40 bits of a running total.
	MaxLogLimit = 1 << 39

	// maxLogWindow keeps the ticks of a log, dead ones included, distinct in their 48 bits: 407 days
	// of microseconds. Longer windows count in milliseconds.
	maxLogWindow = 1 << 45
)

// NewLogEntry returns the entry of a request at a tick, with the running total after it.
func NewLogEntry(tick, total int64) (e LogEntry) {
	binary.BigEndian.PutUint32(e[0:], uint32(tick>>16&0xffffffff))
	binary.BigEndian.PutUint16(e[4:], uint16(tick&0xffff))
	e[6] = byte(total >> 32)
	binary.BigEndian.PutUint32(e[7:], uint32(total&0xffffffff))
	return e
}

// tick returns the entry's tick: of all ticks with its residue the one nearest to now.
func (e *LogEntry) tick(now int64) int64 {
	residue := int64(binary.BigEndian.Uint32(e[0:]))<<16 | int64(binary.BigEndian.Uint16(e[4:]))
	return now - ((now-residue+logTicks/2)&(logTicks-1) - logTicks/2)
}

// total returns the running total's residue.
func (e *LogEntry) total() int64 {
	return int64(e[6])<<32 | int64(binary.BigEndian.Uint32(e[7:]))
}

// units returns what was taken between two running totals.
func units(total, before int64) int64 { return (total - before) & (LogUnits - 1) }

// grown returns the entries with room for one more. A new array is a quarter larger than its
// content, half of what append would take for short logs.
func grown(entries []LogEntry) []LogEntry {
	if len(entries) < cap(entries) {
		return entries
	}
	larger := make([]LogEntry, len(entries), len(entries)+len(entries)/4+1)
	copy(larger, entries)
	return larger
}

// Coarse returns a copy with few entries. Each entry that is left out is counted with the one after
// it, so that its units count for longer than they would, never shorter.
func (l *UnitLog) Coarse() *UnitLog {
	const few = 8
	c := &UnitLog{Before: l.Before}
	step := (len(l.Entries) + few - 1) / few
	for i := len(l.Entries) - 1; i >= 0; i -= step {
		c.Entries = append(c.Entries, l.Entries[i])
	}
	slices.Reverse(c.Entries)
	return c
}
