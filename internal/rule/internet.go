package rule

import "net/netip"

// sharedSpace are the addresses between a carrier's NAT and its customers (RFC 6598).
var sharedSpace = netip.MustParsePrefix("100.64.0.0/10")

// isOfInternet reports whether a client of the internet can have an IPv4 address: not private, shared, link-local,
// loopback, zero, multicast or reserved.
func isOfInternet(ip netip.Addr) bool {
	const multicastAndReserved = 224
	first := ip.As4()[0]
	return first != 0 && first < multicastAndReserved &&
		!ip.IsPrivate() && !ip.IsLoopback() && !ip.IsLinkLocalUnicast() && !sharedSpace.Contains(ip)
}

// isPublic reports whether a client of the internet can have an address.
func isPublic(address netip.Addr) bool {
	if address.Is4() {
		return isOfInternet(address)
	}
	return address.IsGlobalUnicast() && !address.IsPrivate()
}
