package adminapi

import (
	"errors"
	"net/netip"
	"strings"
)

// The errors of [AddressOf], behind what is wrong.
var (
	errNoAddress = errors.New("write an address such as 203.0.113.7, or name the policy")
	errInside    = errors.New("write one address, or the network as a range")
)

// AddressOf returns the addresses that a key names as the keys of clients' addresses do: one, or the network that it counts
// by. IPv4 in IPv6 form becomes IPv4. A zone, a port and brackets are no part of an address here, and zeros in front of
// numbers, which some read as octal, are refused. The errors do not quote the key.
func AddressOf(key string) (netip.Prefix, error) {
	text := strings.TrimPrefix(key, standInMark)
	if !strings.Contains(text, "/") {
		address, err := netip.ParseAddr(text)
		if err != nil || address.Zone() != "" {
			return netip.Prefix{}, errNoAddress
		}
		address = address.Unmap()
		return netip.PrefixFrom(address, address.BitLen()), nil
	}
	network, err := netip.ParsePrefix(text)
	if err != nil || network.Addr().Is4In6() {
		return netip.Prefix{}, errNoAddress
	}
	if network != network.Masked() {
		return netip.Prefix{}, errInside
	}
	return network, nil
}

// standInMark is before the address that takes the place of an empty key.
const standInMark = "%ip:"
