package kernel

import (
	"slices"
	"sync/atomic"
	"time"
)

// Unit is a kind of period.
type Unit string

// The units. Weeks begin on Monday unless they have another start.
const (
	unitDay   Unit = "day"
	unitWeek  Unit = "week"
	unitMonth Unit = "month"
	unitYear  Unit = "year"
)

// Units lists them, the shortest first.
func Units() []Unit { return []Unit{unitDay, unitWeek, unitMonth, unitYear} }

// Days returns how many days the longest period of a unit has, 0 for an unknown unit.
func (u Unit) Days() int {
	switch u {
	case unitDay:
		return 1
	case unitWeek:
		return 7
	case unitMonth:
		return 31
	case unitYear:
		return 366
	}
	return 0
}

// Bounds are the starts of four periods, one after the other, in microseconds since the Unix epoch. The
// second is the period of the instant that was asked for. None is below 0.
type Bounds [4]int64

// shortest returns the length of the shortest period between the bounds.
func (b *Bounds) shortest() int64 { return min(b[1]-b[0], b[2]-b[1], b[3]-b[2]) }

// same reports whether two starts are of the same period by different tables of time zones: they are at
// most half of the shortest period apart.
func (b *Bounds) same(start, other int64) bool {
	return 2*max(start-other, other-start) <= b.shortest()
}

// nearest returns the index of the bound that a start is of, -1 where it is of another period.
func (b *Bounds) nearest(start int64) int {
	nearest := 0
	for i := range b {
		if max(b[i]-start, start-b[i]) <= max(b[nearest]-start, start-b[nearest]) {
			nearest = i
		}
	}
	if !b.same(b[nearest], start) {
		return -1
	}
	return nearest
}

// Periods are the periods of a calendar in a time zone. They are safe for concurrent use.
type Periods struct {
	of    Calendar
	zone  *time.Location
	ahead int64 // by how many microseconds the right time is ahead of the clock that instants are read from
	last  atomic.Pointer[Bounds]
}

// NewPeriods returns the periods of a calendar in a time zone.
func NewPeriods(of Calendar, zone *time.Location) *Periods { return &Periods{of: of, zone: zone} }

// By returns the same periods for a clock that is that many microseconds behind the right time. A clock that is an hour
// slow, say, finds each period an hour earlier.
func (p *Periods) By(ahead int64) *Periods {
	return &Periods{of: p.of, zone: p.zone, ahead: ahead}
}

// Around returns the bounds around an instant, in microseconds since the Unix epoch. It works them out once
// a period.
func (p *Periods) Around(micros int64) *Bounds {
	if last := p.last.Load(); last != nil && last[1] <= micros && micros < last[2] {
		return last
	}
	b := p.around(micros + p.ahead)
	for i := range b {
		b[i] -= p.ahead
	}
	p.last.Store(&b)
	return &b
}

// around works the bounds out: of the starts of some periods on both sides, the last before the instant and
// its neighbors. A period that a zone leaves out, such as 2011-12-30 in Samoa, has no start of its own.
func (p *Periods) around(micros int64) Bounds {
	const before, after = 3, 5
	now := time.UnixMicro(micros).In(p.zone)
	first := p.of.first(time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, time.UTC))
	starts := make([]int64, 0, before+after)
	for n := -before; n < after; n++ {
		starts = append(starts, firstAt(p.of.add(first, n), p.zone).UnixMicro())
	}
	starts = slices.Compact(starts)
	i := len(starts) - 3
	for starts[i] > micros {
		i--
	}
	b := Bounds(starts[i-1 : i+3])
	for j := range b {
		b[j] = max(0, b[j])
	}
	return b
}

const (
	// farthest is more seconds than any two offsets of a zone from UTC differ.
	farthest = 60 * 3600

	// stride is fewer seconds than there are between two transitions of any zone.
	stride = 6 * 3600
)

// firstAt returns the first instant at which clocks of a zone show a time or a later one. The time is given as if it were
// one of UTC. If the clocks leave it out, that is the first instant behind it; if it comes twice, its first. firstAt
// walks the zone's transitions: of days without a first hour [time.Date] returns an
// instant of the day before in zones west of Greenwich, and [time.Time.ZoneBounds] ends before it begins on some
// last days of December.
func firstAt(shown time.Time, zone *time.Location) time.Time {
	wall, at := shown.Unix(), shown.Unix()-farthest
	for offset := offsetAt(at, zone); ; {
		end, next := at+stride, offsetAt(at+stride, zone)
		changes := end
		if next != offset {
			changes = transition(at, end, zone)
		}
		if start := max(at, wall-offset); start < changes {
			return time.Unix(start, 0).In(zone)
		}
		if start := max(changes, wall-next); start < end {
			return time.Unix(start, 0).In(zone)
		}
		at, offset = end, next
	}
}

// offsetAt returns a zone's offset from UTC at an instant, in seconds.
func offsetAt(at int64, zone *time.Location) int64 {
	_, offset := time.Unix(at, 0).In(zone).Zone()
	return int64(offset)
}

// transition returns the first second with another offset of a span whose last one has another than its
// first.
func transition(from, end int64, zone *time.Location) int64 {
	offset := offsetAt(from, zone)
	for from+1 < end {
		if middle := from + (end-from)/2; offsetAt(middle, zone) == offset {
			from = middle
		} else {
			end = middle
		}
	}
	return end
}
