package rule

import (
	"fmt"
	"math"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// unnamedPeer is the address that Go reports for the client of a unix socket.
const unnamedPeer = "@"

// hasPeerAddress reports whether a request's connection comes from an address and a port. Over a unix socket RemoteAddr is
// "@", empty, or the name of another socket.
func hasPeerAddress(r *http.Request) bool {
	return r.RemoteAddr != "" && r.RemoteAddr[0] != unnamedPeer[0] && r.RemoteAddr[0] != '/'
}

// isEarly reports whether a request came in early data of HTTP/3 (RFC 9000, section 8), whose sender's address may be
// forged.
func isEarly(r *http.Request) bool { return r.TLS != nil && !r.TLS.HandshakeComplete }

// needsAddress reports whether the address or the port of the client's connection is a part of the key.
func (t *KeyTemplate) needsAddress() bool {
	return slices.ContainsFunc(t.parts, func(p keyPart) bool {
		return p.Name == clientIPName || strings.HasPrefix(p.Name, "http.request.remote")
	})
}

// needsAddress reports whether the address or the port of the client's connection is a part of the rule's key, or of what turns
// go round by.
func (r *Rule) needsAddress() bool {
	return r.Key.needsAddress() || r.Wait.By != nil && r.Wait.By.needsAddress()
}

// reportMissingAddress calls OnMissingAddress if a rule's key cannot tell clients apart, because the request lacks the
// client's address. keyIsEmpty says that on_empty_key decides.
func (s *Set) reportMissingAddress(rule *Rule, r *http.Request, keyIsEmpty bool) {
	clientIP, _ := caddyhttp.GetVar(r.Context(), caddyhttp.ClientIPVarKey).(string)
	server, _ := r.Context().Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	unknown := clientIP == "" || clientIP == unnamedPeer
	needed := rule.Key.hasPlaceholder(clientIPName) || keyIsEmpty && rule.OnEmptyKey == EmptyKeyClientIP
	var remedy string
	switch {
	case rule.Key.hasPlaceholder(remoteHostName):
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

// hasPlaceholder reports whether the key contains a placeholder.
func (t *KeyTemplate) hasPlaceholder(placeholder string) bool {
	return slices.ContainsFunc(t.parts, func(p keyPart) bool { return p.Name == placeholder })
}

// Prefixes are how many leading bits of an address are part of a key: 0 to 32 and 0 to 128.
type Prefixes struct{ IPv4, IPv6 int }

// Shorten cuts an address to its prefix, written as CIDR unless all bits are kept. An IPv4 address in IPv6 form becomes
// IPv4. A text that is no address is returned as it is.
func (p Prefixes) Shorten(address string) string {
	if p.IPv4 == 32 && strings.IndexByte(address, ':') < 0 {
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

// The networks of IPv6 whose addresses contain an IPv4 address. A /64 of them would be all IPv4 clients behind a
// translator, or one of the 65,536 networks that a single client of 6to4 has.
var (
	wellKnownTranslation = netip.MustParsePrefix("64:ff9b::/96")    // NAT64, RFC 6052
	translated           = netip.MustParsePrefix("::ffff:0:0:0/96") // SIIT, RFC 2765
	sixToFour            = netip.MustParsePrefix("2002::/16")       // RFC 3056
)

// localTranslation is for networks with a translator of their own (RFC 8215). Each such network decides which bits are
// the IPv4 address, so that only the whole address tells clients apart.
var localTranslation = netip.MustParsePrefix("64:ff9b:1::/48")

// asIPv4 returns the IPv4 address that an IPv6 address contains, and any other address as it is. An IPv4 address that no
// client of the internet has is not returned, such as 10.0.0.1: the request would count as the client of the server's
// own network that has this address.
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

// privateRanges is the word for all private and loopback addresses, as in Caddy's own options.
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

// ParseRange reads a CIDR range, or an address as a range of one. IPv4 in IPv6 form becomes IPv4.
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

// exemptsAddresses reports whether clients are exempt by their address.
func (s *Set) exemptsAddresses() bool { return len(s.Exempt)+len(s.ExemptSources) > 0 }

// isExempt reports whether the client's address lies in one of the exempt ranges, or the crawler that a request certainly comes
// from is exempt; empty: the request comes from no crawler. An address that the client may have forged does not count.
func (s *Set) isExempt(r *http.Request, crawler string) bool {
	if crawler != "" && slices.Contains(s.ExemptCrawlers, crawler) {
		return true
	}
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
	return slices.ContainsFunc(s.ExemptSources, func(source *ExemptSource) bool { return source.has(r, address) })
}

// ForwardedWatch finds out whether clients have the addresses that they should. It looks at the first 100 requests of a handler
// for a proxy in front that sends clients' addresses that Caddy does not trust, so that all clients have the proxy's address.
// Where proxies are trusted without trusted_proxies_strict it goes on with a [believedWatch].
type ForwardedWatch struct {
	// OnUnbelieved is called once, if all of the first requests came with an address that was not trusted. Required.
	OnUnbelieved func()

	// OnWritable is called once, for a request whose client has written the address that counts. Nil: nothing is looked for.
	OnWritable func(*WritableAddress)

	requests atomic.Int32 // with an address that was not trusted; below 0: the first part has ended
	believed atomic.Pointer[believedWatch]
}

// hasEnded is the number of requests once nothing is looked for any more; with isBelieving the second part goes on. Requests that
// are looked at meanwhile add a few to either.
const (
	hasEnded    = math.MinInt32
	isBelieving = math.MinInt32 / 2
)

// GoesByAddress reports whether exempt, or a rule's key or turns, depend on the address of the client or of its connection.
func (s *Set) GoesByAddress() bool {
	return s.exemptsAddresses() || slices.ContainsFunc(s.Rules, func(r Rule) bool { return r.needsAddress() })
}

// GoesByClient reports whether exempt, or a rule's key or turns, depend on the client's address behind proxies.
func (s *Set) GoesByClient() bool {
	return s.exemptsAddresses() || slices.ContainsFunc(s.Rules, func(r Rule) bool {
		return r.Key.hasPlaceholder(clientIPName) || r.Wait.By != nil && r.Wait.By.hasPlaceholder(clientIPName)
	})
}

// Look looks at a request.
func (w *ForwardedWatch) Look(r *http.Request) {
	switch requests := w.requests.Load(); {
	case requests < isBelieving+isBelieving/2: // has ended
	case requests < 0:
		w.lookAtBelieved(r)
	case !isUnbelieved(r):
		w.endFirst(r)
	case w.requests.Add(1) == firstRequests:
		w.endFirst(r)
		w.OnUnbelieved()
	}
}

// endFirst ends the first part of the watch, at a request.
func (w *ForwardedWatch) endFirst(r *http.Request) {
	server, _ := r.Context().Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	if w.OnWritable == nil || server == nil || server.TrustedProxiesStrict > 0 || TrustedSource(server) == "" && !server.TrustedProxiesUnix {
		w.requests.Store(hasEnded)
		return
	}
	w.believed.CompareAndSwap(nil, new(believedWatch))
	w.requests.Store(isBelieving)
	w.lookAtBelieved(r)
}

// lookAtBelieved looks at a request of a server that trusts proxies.
func (w *ForwardedWatch) lookAtBelieved(r *http.Request) {
	server, _ := r.Context().Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	believed := w.believed.Load()
	if server == nil || believed == nil {
		return
	}
	if found := believed.look(r, server); found != nil {
		w.requests.Store(hasEnded)
		w.OnWritable(found)
	}
}

// isUnbelieved reports whether a request names a client of the internet other than its connection's address, while Caddy
// takes the connection's address for the client's.
func isUnbelieved(r *http.Request) bool {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil { // requests over a unix socket have a warning of their own
		return false
	}
	text, _ := caddyhttp.GetVar(r.Context(), caddyhttp.ClientIPVarKey).(string)
	connection := peer.Addr().Unmap().WithZone("")
	if client, err := netip.ParseAddr(text); err != nil || client.Unmap().WithZone("") != connection {
		return false
	}
	return slices.ContainsFunc(forwarded(r.Header), func(address netip.Addr) bool {
		return address != connection && isPublic(address)
	})
}

// forwarded returns the addresses in X-Forwarded-For, and behind for= in Forwarded (RFC 7239).
func forwarded(header http.Header) (addresses []netip.Addr) {
	add := func(text string) {
		if host, _, err := net.SplitHostPort(text); err == nil {
			text = host
		}
		if address, err := netip.ParseAddr(strings.Trim(text, "[]")); err == nil {
			addresses = append(addresses, address.Unmap().WithZone(""))
		}
	}
	for _, line := range header["X-Forwarded-For"] {
		for text := range strings.SplitSeq(line, ",") {
			add(strings.TrimSpace(text))
		}
	}
	for _, line := range header["Forwarded"] {
		for pair := range strings.FieldsFuncSeq(line, func(r rune) bool { return r == ',' || r == ';' }) {
			name, value, _ := strings.Cut(pair, "=")
			if strings.EqualFold(strings.TrimSpace(name), "for") {
				add(strings.Trim(strings.TrimSpace(value), `"`))
			}
		}
	}
	return addresses
}
