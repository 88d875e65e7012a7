package accesslog

import (
	"net/netip"
	"strings"
)

// longestAddress is the length of the longest text that may be an address with brackets, zone and port, in bytes.
const longestAddress = 80

// address returns the address that a text is, without port, brackets, zone, a comma behind it, and ::ffff: of an IPv4
// address. A text that is no address is returned as it is.
func address(text string) (plain string, ok bool) {
	if isIPv4(text) {
		return text, true
	}
	trimmed := strings.TrimSuffix(text, ",")
	if len(trimmed) > longestAddress || trimmed == "" {
		return text, false
	}
	if isIPv4(trimmed) {
		return trimmed, true
	}
	if strings.IndexByte(trimmed, ':') < 0 { // a host name, which netip would make a long error of
		return text, false
	}
	if a, err := netip.ParseAddr(trimmed); err == nil {
		return a.Unmap().WithZone("").String(), true
	}
	if a, err := netip.ParseAddrPort(trimmed); err == nil {
		return a.Addr().Unmap().WithZone("").String(), true
	}
	if trimmed[0] == '[' && trimmed[len(trimmed)-1] == ']' {
		if a, err := netip.ParseAddr(trimmed[1 : len(trimmed)-1]); err == nil && a.Is6() {
			return a.Unmap().WithZone("").String(), true
		}
	}
	return text, false
}

// IsAddress reports whether a client is an address.
func IsAddress(client string) bool {
	_, ok := address(client)
	return ok
}

// isIPv4 reports whether a text is an IPv4 address in its only form.
func isIPv4(text string) bool {
	if len(text) < 7 || len(text) > 15 {
		return false
	}
	dots, digits, value := 0, 0, 0
	for i := range len(text) {
		switch c := text[i]; {
		case c == '.':
			if digits == 0 {
				return false
			}
			dots, digits, value = dots+1, 0, 0
		case c < '0' || c > '9' || digits > 0 && value == 0:
			return false
		default:
			if value = value*10 + int(c-'0'); value > 255 {
				return false
			}
			digits++
		}
	}
	return dots == 3 && digits > 0
}

// withoutPort returns the address of a text that always ends with a port, such as ::1:443.
func withoutPort(text string) string {
	if at := strings.LastIndexByte(text, ':'); at >= 0 {
		text = text[:at]
	}
	plain, _ := address(text)
	return plain
}

// isForwarded reports whether a text can be an X-Forwarded-For of addresses alone.
func isForwarded(text string) bool {
	if len(text) > 40*longestAddress {
		return false
	}
	for entry := range strings.SplitSeq(text, ",") {
		if _, ok := address(strings.TrimSpace(entry)); !ok {
			return false
		}
	}
	return true
}

// setClient sets the client of a line from the place of the client's address, which may hold an X-Forwarded-For. Without
// the peer in the line, the last entry of that counts: the one that the nearest proxy has written.
func (e *Entry) setClient(text string) {
	text = noneIfDash(text)
	if comma := strings.LastIndexByte(text, ','); comma >= 0 && comma < len(text)-1 {
		text = strings.TrimSpace(text[comma+1:])
		e.lastForwarded = true
	}
	e.Client, _ = address(text)
	e.Remote = e.Client
}
