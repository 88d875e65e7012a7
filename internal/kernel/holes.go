package kernel

import "slices"

// Holes are the refunded units of a bucket with a serial, newest first. They never change; a refund
// makes new ones. Nil is none. Lua twin: refund in scripts/bucket.lua.
type Holes []hole

// hole is the refunded units of takes that follow one another: the serial of the last of them, and how
// many. A sum is several holes at the index of the oldest. In a list that is being changed `ended` is
// not the serial, but how many units ago it was.
type hole struct {
	Ended, Units int64
	Sum          bool
}

// MaxHoles bounds the holes of a state. Redis keeps 16 bytes for each.
const MaxHoles = 16

// reversed turns serials into units ago, or back, in a copy that has room for one more.
func (h *Holes) reversed(serial int64) Holes {
	if h == nil {
		return nil
	}
	list := make(Holes, len(*h), len(*h)+1)
	for i, one := range *h {
		one.Ended = (serial - one.Ended) & SerialMask
		list[i] = one
	}
	return list
}

// after returns the holes that are of use with a debt.
func (h *Holes) after(debt int64) *Holes {
	if debt == 0 {
		return nil
	}
	return h
}

// since returns how many units were taken after those that ended some units ago, without the refunded
// ones, and how many holes are newer. A receipt in a hole was refunded, and is not found.
func (h Holes) since(ago int64) (units int64, newer int, found bool) {
	units = ago
	for _, one := range h {
		switch {
		case one.Ended == ago || (one.Ended < ago && !one.Sum && one.Ended+one.Units > ago):
			return 0, 0, false
		case one.Ended < ago:
			units -= one.Units
			newer++
		}
	}
	return units, newer, units >= 0
}

// with returns the holes and another one at an index, of units that ended some units ago, as far as they have not
// drained.
func (h Holes) with(index int, ago, units, undrained int64) Holes {
	h = slices.Insert(h, index, hole{Ended: ago, Units: units})
	return h.joined(index).joined(index - 1).without(undrained).bounded()
}

// joined joins a hole with the next older one, if no unit is between them.
func (h Holes) joined(index int) Holes {
	if index < 0 || index+1 >= len(h) {
		return h
	}
	newer, older := &h[index], h[index+1]
	if newer.Sum || newer.Ended+newer.Units != older.Ended {
		return h
	}
	newer.Units, newer.Sum = newer.Units+older.Units, older.Sum
	return slices.Delete(h, index+1, index+2)
}

// without drops the holes before which everything has drained. The units since are at least those that
// follow the older of a sum's takes.
func (h Holes) without(undrained int64) Holes {
	refunded := int64(0)
	for i, one := range h {
		since := one.Ended - refunded
		if one.Sum {
			since -= one.Units
		}
		if since >= undrained {
			return h[:i]
		}
		refunded += one.Units
	}
	return h
}

// bounded makes two neighbors a sum if there are too many holes: those with the fewest units
// between them. Takes between the two get less back, and never more.
func (h Holes) bounded() Holes {
	if len(h) <= MaxHoles {
		return h
	}
	index, least := len(h)-2, int64(SerialMask+1)
	for i := len(h) - 2; i >= 0; i-- {
		if between := h[i+1].Ended - h[i].Ended - h[i].Units; !h[i].Sum && between < least {
			index, least = i, between
		}
	}
	older := &h[index+1]
	older.Units, older.Sum = older.Units+h[index].Units, true
	return slices.Delete(h, index, index+1)
}

// stored returns the holes as a state keeps them, in a slice of their size.
func (h Holes) stored(serial int64) *Holes {
	if len(h) == 0 {
		return nil
	}
	list := slices.Clip(h.reversed(serial))
	return &list
}

// SerialMask takes a serial modulo 2^52, below which Lua counts exactly.
const SerialMask = 1<<52 - 1
