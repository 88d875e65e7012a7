package requestvalue

import (
	"net/netip"
	"strings"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/bodyvalue"
)

// Host returns the value of a Host header without its port: a name in lower case without dots at its end, or an address of
// IPv6 in its short form, without a zone. Any other text is unreadable.
func Host(host string) bodyvalue.Value {
	name, _, reason := splitHost(host)
	return valueOf(name, reason)
}

// valueOf returns a value that is unreadable for a reason, absent if the text is empty, or the text.
func valueOf(text string, reason bodyvalue.UnreadableReason) bodyvalue.Value {
	if reason != bodyvalue.ReasonNone || text == "" {
		return bodyvalue.Unreadable(reason)
	}
	return bodyvalue.Read(text)
}

// HostPort returns the value of a Host header with its port, without leading zeros. The port of the scheme is dropped.
func HostPort(host string, isTLS bool) bodyvalue.Value {
	name, port, reason := splitHost(host)
	ofScheme := "80"
	if isTLS {
		ofScheme = "443"
	}
	if reason != bodyvalue.ReasonNone || port == "" || port == ofScheme {
		return valueOf(name, reason)
	}
	if strings.IndexByte(name, ':') >= 0 {
		name = "[" + name + "]"
	}
	return bodyvalue.Read(name + ":" + port)
}

// splitHost returns the name and the port of a Host header. The port has no leading zeros.
func splitHost(host string) (name, port string, reason bodyvalue.UnreadableReason) {
	if host == "" {
		return "", "", bodyvalue.ReasonNone
	}
	if host[0] == '[' {
		literal, rest, closed := strings.Cut(host[1:], "]")
		literal, _, _ = strings.Cut(literal, "%")
		address, err := netip.ParseAddr(literal)
		port, ok := portOf(rest)
		if !closed || err != nil || !address.Is6() || !ok {
			return "", "", bodyvalue.ReasonHost
		}
		return address.String(), port, bodyvalue.ReasonNone
	}
	name = host
	if i := strings.IndexByte(host, ':'); i >= 0 {
		var ok bool
		if port, ok = portOf(host[i:]); !ok {
			return ipv6(host)
		}
		name = host[:i]
	}
	name = strings.TrimRight(name, ".")
	isLower := true
	for i := range len(name) {
		c := bodyvalue.FoldASCII(name[i])
		if c-'a' > 'z'-'a' && c-'0' > 9 && c != '.' && c != '-' && c != '_' {
			return "", "", bodyvalue.ReasonHost
		}
		isLower = isLower && c == name[i]
	}
	switch {
	case name == "":
		return "", "", bodyvalue.ReasonHost
	case !isLower:
		name = lower(name)
	}
	return name, port, bodyvalue.ReasonNone
}

// ipv6 returns an address of IPv6 without brackets, as the value of a host is.
func ipv6(host string) (name, port string, reason bodyvalue.UnreadableReason) {
	if address, err := netip.ParseAddr(host); err == nil && address.Is6() && address.Zone() == "" {
		return address.String(), "", bodyvalue.ReasonNone
	}
	return "", "", bodyvalue.ReasonHost
}

// portOf returns the port of a text that is empty, or a colon and digits.
func portOf(text string) (port string, ok bool) {
	if text == "" {
		return "", true
	}
	if text[0] != ':' || strings.Trim(text[1:], "0123456789") != "" {
		return "", false
	}
	return strings.TrimLeft(text[1:], "0"), true
}
