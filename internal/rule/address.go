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

// has reports whether a placeholder stands in the key.
func (t *KeyTemplate) has(placeholder string) bool {
	return slices.ContainsFunc(t.parts, func(p keyPart) bool { return p.Name == placeholder })
}

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
