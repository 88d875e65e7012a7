package crawlers

import (
	"net/netip"
	"slices"
)

// translated are addresses of IPv6 that hold one of IPv4: NAT64, RFC 6052.
var translated = netip.MustParsePrefix("64:ff9b::/96")

// inner are networks that no client of the internet has, beside those of [netip.Addr.IsPrivate]. Clouds give some of them to
// their own proxies. Those of documents (RFC 5737, RFC 3849) are not among them: tests have clients there.
var inner = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),      // this network, RFC 791
	netip.MustParsePrefix("100.64.0.0/10"),  // between a carrier's NAT and its customers, RFC 6598
	netip.MustParsePrefix("192.0.0.0/24"),   // protocols of the IETF, RFC 6890
	netip.MustParsePrefix("192.88.99.0/24"), // relays of 6to4, RFC 7526
	netip.MustParsePrefix("198.18.0.0/15"),  // benchmarks, RFC 2544
	netip.MustParsePrefix("240.0.0.0/4"),    // reserved, RFC 1112
	netip.MustParsePrefix("::/96"),          // IPv4 as it was once written, RFC 4291
	netip.MustParsePrefix("64:ff9b:1::/48"), // NAT64 within a network, RFC 8215
	netip.MustParsePrefix("100::/64"),       // discarded, RFC 6666
	netip.MustParsePrefix("2001:2::/48"),    // benchmarks, RFC 5180
	netip.MustParsePrefix("5f00::/16"),      // segment routing, RFC 9602
	netip.MustParsePrefix("fec0::/10"),      // site-local, RFC 3879
}

// Canonical returns an address as its operator writes it: IPv4 where IPv6 holds one, without a zone. Of an address of NAT64 only a
// resolver with DNS64 finds the name of the IPv4 within: the question is the same by all resolvers.
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
	return a.IsGlobalUnicast() && !a.IsPrivate() && !slices.ContainsFunc(inner, func(p netip.Prefix) bool { return p.Contains(a) })
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
