package rule

import (
	"net/netip"
	"strings"
)

// Prefixes are the leading bits of addresses that tell clients apart: 0 to 32 and 0 to 128.
type Prefixes struct{ IPv4, IPv6 int }

// Shorten cuts an address to its prefix. Whole addresses stay as they are, shorter ones are
// written as CIDR; what is no address stays too.
func (p Prefixes) Shorten(address string) string {
	if p.IPv4 == 32 && !strings.Contains(address, ":") {
		return address
	}
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return address
	}
	ip = ip.Unmap().WithZone("")
	bits := p.IPv6
	if ip.Is4() {
		bits = p.IPv4
	}
	if bits == ip.BitLen() {
		return ip.String()
	}
	prefix, err := ip.Prefix(bits)
	if err != nil {
		return address
	}
	return prefix.String()
}
