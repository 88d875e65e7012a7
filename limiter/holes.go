package limiter

import "slices"

// holes are the refunded units of a bucket with a serial, newest first. They never change; a refund
// makes new ones. Nil is none. Lua twin: refund in scripts/bucket.lua.
type holes []hole

// hole is the refunded units of takes that follow one another: the serial of the last of them, and how
// many. A sum is several holes at the place of the oldest. In a list that is being changed `ended` is
// not the serial, but how many units ago it was.
type hole struct {
	ended, units int64
	sum          bool
}

// maxHoles bounds the holes of a state. Redis keeps 16 bytes for each.
const maxHoles = 16

// reversed turns serials into units ago, or back, in a copy that has room for one more.
func (h *holes) reversed(serial int64) holes {
	if h == nil {
		return nil
	}
	list := make(holes, len(*h), len(*h)+1)
	for i, one := range *h {
		one.ended = (serial - one.ended) & serialMask
		list[i] = one
	}
	return list
}

// after returns the holes that are of use with a debt.
func (h *holes) after(debt int64) *holes {
	if debt == 0 {
		return nil
	}
	return h
}

// since returns how many units were taken after those that ended some units ago, without the refunded
// ones, and how many holes are newer. A receipt in a hole was refunded, and is not found.
func (h holes) since(ago int64) (units int64, newer int, found bool) {
	units = ago
	for _, one := range h {
		switch {
		case one.ended == ago || (one.ended < ago && !one.sum && one.ended+one.units > ago):
			return 0, 0, false
		case one.ended < ago:
			units -= one.units
			newer++
		}
	}
	return units, newer, units >= 0
}

// with returns the holes and another one at a place, of units that ended some units ago. So many units
// have not drained.
func (h holes) with(place int, ago, units, undrained int64) holes {
	h = slices.Insert(h, place, hole{ended: ago, units: units})
	return h.joined(place).joined(place - 1).without(undrained).bounded()
}

// joined joins a hole with the one that is older by a place, where no unit is between them.
func (h holes) joined(place int) holes {
	if place < 0 || place+1 >= len(h) {
		return h
	}
	newer, older := &h[place], h[place+1]
	if newer.sum || newer.ended+newer.units != older.ended {
		return h
	}
	newer.units, newer.sum = newer.units+older.units, older.sum
	return slices.Delete(h, place+1, place+2)
}

// without drops the holes before which everything has drained. The units since are at least those that
// follow the older of a sum's takes.
func (h holes) without(undrained int64) holes {
	refunded := int64(0)
	for i, one := range h {
		since := one.ended - refunded
		if one.sum {
			since -= one.units
		}
		if since >= undrained {
			return h[:i]
		}
		refunded += one.units
	}
	return h
}

// bounded makes two neighbors a sum where there are too many holes: those with the fewest units
// between them. Takes between the two get less back, and never more.
func (h holes) bounded() holes {
	if len(h) <= maxHoles {
		return h
	}
	place, least := len(h)-2, int64(serialMask+1)
	for i := len(h) - 2; i >= 0; i-- {
		if between := h[i+1].ended - h[i].ended - h[i].units; !h[i].sum && between < least {
			place, least = i, between
		}
	}
	older := &h[place+1]
	older.units, older.sum = older.units+h[place].units, true
	return slices.Delete(h, place, place+1)
}

// stored returns the holes as a state keeps them, in a slice of their size.
func (h holes) stored(serial int64) *holes {
	if len(h) == 0 {
		return nil
	}
	list := slices.Clip(h.reversed(serial))
	return &list
}
