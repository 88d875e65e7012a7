package overrides

import "net/netip"

// everywhere is the blocks for all policies. They are never changed.
type everywhere struct {
	entries   []*Entry
	addresses map[netip.Addr]*Entry // of ranges that are one address
	ranges    *Ranges               // wider ones; nil: none
}

// newEverywhere sorts blocks for all policies; nil if there is none.
func newEverywhere(entries []*Entry) *everywhere {
	if len(entries) == 0 {
		return nil
	}
	b := &everywhere{entries: entries, addresses: map[netip.Addr]*Entry{}}
	var wide []*Entry
	for _, e := range entries {
		if e.isRange() {
			wide = append(wide, e)
		} else {
			b.addresses[e.Range.Addr()] = e
		}
	}
	b.ranges = newRanges(wide)
	return b
}

// everywhere returns the blocks for all policies; nil if there is none. A nil Live has none.
func (l *Live) everywhere() *everywhere {
	if l == nil {
		return nil
	}
	if s := l.Applied.Load(); s != nil {
		return s.everywhere
	}
	return nil
}

// BlocksEverywhere reports whether there are blocks for all policies, which a client's address has to be compared with.
func (l *Live) BlocksEverywhere() bool { return l.everywhere() != nil }

// BlockOf returns the longest block of an address for all policies; nil if there is none. The address is the whole one, not
// cut to its prefix. IPv4 in IPv6 form counts as IPv4.
func (l *Live) BlockOf(address netip.Addr) (block *Entry) {
	b := l.everywhere()
	if b == nil {
		return nil
	}
	address = address.Unmap().WithZone("")
	if e := b.addresses[address]; l.applies(e) {
		block = e
	}
	if b.ranges == nil {
		return block
	}
	if e := b.ranges.find(address); l.applies(e) {
		block = Longer(block, e)
	}
	return block
}

// BlockOfNetwork returns the longest block for all policies that contains all addresses of a network, and one that contains
// some of them; nil if there is none.
func (l *Live) BlockOfNetwork(network netip.Prefix) (all, some *Entry) {
	b := l.everywhere()
	if b == nil {
		return nil, nil
	}
	if network.IsSingleIP() {
		return l.BlockOf(network.Addr()), nil
	}
	return l.blocking(b.entries, network)
}
