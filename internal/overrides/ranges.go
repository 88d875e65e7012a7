package overrides

import (
	"cmp"
	"errors"
	"net/netip"
	"slices"
	"time"
)

// maxRanges is the most blocked ranges of all policies together. Two nodes that set the last one at the same time may
// exceed it by one, which slows no request down.
const maxRanges = 1_000

// ErrManyRanges is the error of one more range than [maxRanges].
var ErrManyRanges = errors.New("there are 1,000 ranges: remove one first, or block a wider one")

// Ranges is the blocked ranges of one policy, or those for all policies. They are never changed.
type Ranges struct {
	entries []*Entry
	ipv4    spans
	ipv6    spans
}

// newRanges makes the ranges of entries; nil if there is none.
func newRanges(entries []*Entry) *Ranges {
	if len(entries) == 0 {
		return nil
	}
	slices.SortFunc(entries, func(a, b *Entry) int {
		return cmp.Or(a.Range.Addr().Compare(b.Range.Addr()), cmp.Compare(a.Range.Bits(), b.Range.Bits()))
	})
	r := &Ranges{entries: entries}
	first := slices.IndexFunc(entries, func(e *Entry) bool { return e.Range.Addr().Is6() })
	if first < 0 {
		first = len(entries)
	}
	r.ipv4.build(entries[:first])
	r.ipv6.build(entries[first:])
	return r
}

// spans divide the addresses of one family, in ascending order. Each span ends before the start of the next one, and has
// the longest block of the ranges that contain the span; nil if none does.
type spans struct {
	starts []netip.Addr
	blocks []*Entry
}

// openRange is a range that contains the address that build has reached, and the longest block of this range and the
// wider ones around it.
type openRange struct{ own, longest *Entry }

// build makes the spans of entries, which are in the order of their addresses, wider ranges first. Of two ranges one
// contains the other, or they have no address in common.
func (s *spans) build(entries []*Entry) {
	var open []openRange
	for _, e := range entries {
		for len(open) > 0 && !open[len(open)-1].own.Range.Contains(e.Range.Addr()) {
			open = s.end(open)
		}
		longest := e
		if len(open) > 0 {
			longest = Longer(open[len(open)-1].longest, e)
		}
		open = append(open, openRange{e, longest})
		s.begin(e.Range.Addr(), longest)
	}
	for len(open) > 0 {
		open = s.end(open)
	}
}

// end ends the innermost range. Behind it a span of the next wider range begins.
func (s *spans) end(open []openRange) []openRange {
	last := len(open) - 1
	var outer *Entry
	if last > 0 {
		outer = open[last-1].longest
	}
	if next := lastOf(open[last].own.Range).Next(); next.IsValid() {
		s.begin(next, outer)
	}
	return open[:last]
}

// begin begins a span. It replaces a span that begins at the same address.
func (s *spans) begin(start netip.Addr, block *Entry) {
	if last := len(s.starts) - 1; last >= 0 && s.starts[last] == start {
		s.blocks[last] = block
		return
	}
	s.starts, s.blocks = append(s.starts, start), append(s.blocks, block)
}

// find returns the block that is the longest of the ranges which contain an address; nil if none does. The address is not in
// mapped form, and has no zone.
func (r *Ranges) find(address netip.Addr) *Entry {
	if address.Is4() {
		return r.ipv4.find(address)
	}
	return r.ipv6.find(address)
}

// find returns the block of the span that an address lies in.
func (s *spans) find(address netip.Addr) *Entry {
	low, high := 0, len(s.starts)
	for low < high {
		if middle := int(uint(low+high) >> 1); s.starts[middle].Compare(address) <= 0 {
			low = middle + 1
		} else {
			high = middle
		}
	}
	if low == 0 {
		return nil
	}
	return s.blocks[low-1]
}

// lastOf returns the last address of a range.
func lastOf(p netip.Prefix) netip.Addr {
	bytes := p.Addr().AsSlice()
	for bit := p.Bits(); bit < 8*len(bytes); bit++ {
		bytes[bit/8] |= 0x80 >> (bit % 8)
	}
	last, _ := netip.AddrFromSlice(bytes)
	return last
}

// Longer returns the override that lasts longer. One of them may be nil.
func Longer(a, b *Entry) *Entry {
	switch {
	case a == nil:
		return b
	case b == nil, a.Until.IsZero(), !b.Until.IsZero() && a.Until.After(b.Until):
		return a
	}
	return b
}

// hasRoom returns an error for one more range than there may be.
func hasRoom(entries map[string]*Entry, t Target, now time.Time) error {
	if !t.isRange() || entries[t.field()] != nil {
		return nil
	}
	ranges := 0
	for _, e := range entries {
		if e.isRange() && !e.ended(now) {
			ranges++
		}
	}
	if ranges >= maxRanges {
		return ErrManyRanges
	}
	return nil
}
