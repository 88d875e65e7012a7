package rule

import (
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// unnamedPeer is the address that Go reports for the other end of a unix socket.
const unnamedPeer = "@"

// hasPeerAddress reports whether a request's connection comes from an address and a port. Over a unix
// socket it comes from "@", from nothing, or from the name of another socket.
func hasPeerAddress(r *http.Request) bool {
	return r.RemoteAddr != "" && r.RemoteAddr[0] != unnamedPeer[0] && r.RemoteAddr[0] != '/'
}

// errEarly is the error of a request that came before its sender's address is verified.
var errEarly = errors.New("the client's address is not verified before the TLS handshake is complete")

// isEarly reports whether a request came in early data of HTTP/3, whose sender's address may be forged.
func isEarly(r *http.Request) bool { return r.TLS != nil && !r.TLS.HandshakeComplete }

// needsAddress reports whether the address or the port that a connection comes from is a part of the key.
func (t *KeyTemplate) needsAddress() bool {
	return slices.ContainsFunc(t.parts, func(p keyPart) bool {
		return p.Name == clientIPName || strings.HasPrefix(p.Name, "http.request.remote")
	})
}

// reportMissingAddress calls OnMissingAddress where a rule's key cannot tell clients apart, because the
// request brings no client's address along. keyIsEmpty says that on_empty_key decides.
func (s *Set) reportMissingAddress(rule *Rule, r *http.Request, keyIsEmpty bool) {
	clientIP, _ := caddyhttp.GetVar(r.Context(), caddyhttp.ClientIPVarKey).(string)
	server, _ := r.Context().Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	unknown := clientIP == "" || clientIP == unnamedPeer
	needed := rule.Key.has(clientIPName) || keyIsEmpty && rule.OnEmptyKey == EmptyKeyClientIP
	var remedy string
	switch {
	case rule.Key.has(remoteHostName):
		remedy = "write {client_ip} in place of {remote_host}, which a unix socket does not have"
	case !needed || !unknown:
		return
	case server != nil && server.TrustedProxiesUnix:
		remedy = "have the proxy send X-Forwarded-For, or name the header that it sends in client_ip_headers"
	default:
		remedy = "set trusted_proxies_unix in the global option servers, so that Caddy takes the address from X-Forwarded-For"
	}
	s.OnMissingAddress(rule, remedy)
}

// HasAddress reports whether a client's address is a part of the key.
func (t *KeyTemplate) HasAddress() bool {
	return slices.ContainsFunc(t.parts, func(p keyPart) bool { return p.address })
}

// has reports whether a placeholder stands in the key.
func (t *KeyTemplate) has(placeholder string) bool {
	return slices.ContainsFunc(t.parts, func(p keyPart) bool { return p.Name == placeholder })
}

// Prefixes are the leading bits of addresses that tell clients apart: 0 to 32 and 0 to 128.
type Prefixes struct{ IPv4, IPv6 int }

// Shorten cuts an address to its prefix, that of an IPv4 client in IPv6 form as IPv4. Whole addresses stay as they
// are, shorter ones are written as CIDR; what is no address stays too.
func (p Prefixes) Shorten(address string) string {
	if p.IPv4 == 32 && !strings.Contains(address, ":") {
		return address
	}
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return address
	}
	ip = asIPv4(ip.Unmap().WithZone(""))
	bits := p.IPv6
	switch {
	case ip.Is4():
		bits = p.IPv4
	case localTranslation.Contains(ip):
		bits = ip.BitLen()
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

// The networks of IPv6 whose addresses hold an IPv4 address: their /64 would be that of all IPv4 clients behind a
// translator, or one of the 65,536 of a client of 6to4.
var (
	wellKnownTranslation = netip.MustParsePrefix("64:ff9b::/96")    // NAT64, RFC 6052
	translated           = netip.MustParsePrefix("::ffff:0:0:0/96") // SIIT, RFC 2765
	sixToFour            = netip.MustParsePrefix("2002::/16")       // RFC 3056
)

// localTranslation is for networks with a translator of their own (RFC 8215). Where in it the IPv4 address stands
// each network decides, so that only the whole address tells clients apart.
var localTranslation = netip.MustParsePrefix("64:ff9b:1::/48")

// asIPv4 returns the IPv4 address of the client that an IPv6 address stands for. All others are returned as they are,
// and so is one whose IPv4 address no client of the internet has: it would count as a client of the network
// beside the server, which has this address itself.
func asIPv4(ip netip.Addr) netip.Addr {
	bytes := ip.As16()
	var inside netip.Addr
	switch {
	case wellKnownTranslation.Contains(ip), translated.Contains(ip):
		inside = netip.AddrFrom4([4]byte(bytes[12:]))
	case sixToFour.Contains(ip):
		inside = netip.AddrFrom4([4]byte(bytes[2:]))
	}
	if !inside.IsValid() || !isOfInternet(inside) {
		return ip
	}
	return inside
}

// sharedSpace are the addresses between a carrier's NAT and its customers.
var sharedSpace = netip.MustParsePrefix("100.64.0.0/10")

// isOfInternet reports whether an IPv4 address can be that of a client of the internet: it is neither private, shared,
// of a link or of the machine itself, nor zero, multicast or reserved.
func isOfInternet(ip netip.Addr) bool {
	const multicastAndReserved = 224
	first := ip.As4()[0]
	return first != 0 && first < multicastAndReserved && !ip.IsPrivate() && !ip.IsLoopback() && !ip.IsLinkLocalUnicast() && !sharedSpace.Contains(ip)
}
