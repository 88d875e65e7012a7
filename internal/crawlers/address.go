package crawlers

import "net/netip"

// The networks whose addresses are written as others, or that no client of the internet has.
var (
	translated  = netip.MustParsePrefix("64:ff9b::/96")  // NAT64, RFC 6052
	sharedSpace = netip.MustParsePrefix("100.64.0.0/10") // between a carrier's NAT and its customers, RFC 6598
)

// Canonical returns an address as its operator writes it: IPv4 where IPv6 holds one, without a zone.
func Canonical(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	if translated.Contains(a) {
		bytes := a.As16()
		return netip.AddrFrom4([4]byte(bytes[12:]))
	}
	return a
}

// OfInternet reports whether a client of the internet can have an address.
func OfInternet(a netip.Addr) bool {
	return a.IsGlobalUnicast() && !a.IsPrivate() && !sharedSpace.Contains(a)
}

// networkOf returns the network whose addresses are looked up in one line: anyone with a /32 of IPv6 has each /48 in it.
func networkOf(a netip.Addr) netip.Prefix { return prefixOf(a, 24, 32) }

// nearOf returns the network in which other addresses may be of the same crawler.
func nearOf(a netip.Addr) netip.Prefix { return prefixOf(a, 24, 64) }

func prefixOf(a netip.Addr, ipv4, ipv6 int) netip.Prefix {
	bits := ipv6
	if a.Is4() {
		bits = ipv4
	}
	p, _ := a.Prefix(bits) // both are within bounds
	return p
}
