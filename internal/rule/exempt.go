package rule

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// privateRanges stands for all private and loopback addresses, as elsewhere in Caddy.
const privateRanges = "private_ranges"

// ParseExempt reads addresses, CIDR ranges and private_ranges.
func ParseExempt(texts []string) ([]netip.Prefix, error) {
	var ranges []netip.Prefix
	for _, text := range texts {
		if text == privateRanges {
			private, err := ParseExempt(caddyhttp.PrivateRangesCIDR())
			if err != nil {
				return nil, err
			}
			ranges = append(ranges, private...)
			continue
		}
		prefix, err := ParseRange(text)
		if err != nil {
			return nil, fmt.Errorf("exempt %s: use an address such as 192.0.2.7, a range such as 192.0.2.0/24, or %s", text, privateRanges)
		}
		ranges = append(ranges, prefix)
	}
	return ranges, nil
}

// ParseRange reads a CIDR range, or an address as the range of it alone. IPv4 in IPv6 form is IPv4.
func ParseRange(text string) (netip.Prefix, error) {
	if strings.Contains(text, "/") {
		prefix, err := netip.ParsePrefix(text)
		if prefix.Addr().Is4In6() { // isExempt compares without the mapping
			return prefix.Addr().Unmap().Prefix(prefix.Bits() - 96)
		}
		return prefix.Masked(), err
	}
	address, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Prefix{}, err
	}
	return address.Unmap().Prefix(address.Unmap().BitLen())
}

// isExempt reports whether the client's address lies in one of the exempt ranges. An address that the client may have
// forged does not count.
func (s *Set) isExempt(r *http.Request) bool {
	if isEarly(r) {
		return false
	}
	text, _ := caddyhttp.GetVar(r.Context(), caddyhttp.ClientIPVarKey).(string)
	address, err := netip.ParseAddr(text)
	if err != nil {
		return false
	}
	address = address.Unmap().WithZone("")
	for _, prefix := range s.Exempt {
		if prefix.Contains(address) {
			return true
		}
	}
	return false
}
