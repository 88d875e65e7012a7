package rule

import (
	"math"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// ForwardedWatch finds out whether a proxy in front passes clients' addresses on, and Caddy believes none of them: all
// clients then have the proxy's address. It looks at the first 100 requests of a handler.
type ForwardedWatch struct {
	// OnUnbelieved is called once. Required.
	OnUnbelieved func()

	requests atomic.Int32 // with an address that was not believed; below 0: no more are looked at
}

// GoesByAddress reports whether rules, or what is exempt from them, go by the address of a client or of a connection.
func (s *Set) GoesByAddress() bool {
	return len(s.Exempt) > 0 || slices.ContainsFunc(s.Rules, func(r Rule) bool { return r.Key.needsAddress() })
}

// Look looks at a request.
func (w *ForwardedWatch) Look(r *http.Request) {
	if w.requests.Load() < 0 {
		return
	}
	if !isUnbelieved(r) {
		w.requests.Store(math.MinInt32)
		return
	}
	if w.requests.Add(1) == firstRequests {
		w.requests.Store(math.MinInt32)
		w.OnUnbelieved()
	}
}

// isUnbelieved reports whether a request brings the address of a client of the internet that is not its connection's,
// while Caddy takes the connection's for the client's.
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

// forwarded returns the addresses in X-Forwarded-For, and in Forwarded (RFC 7239) behind for=.
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

// isPublic reports whether an address can be that of a client of the internet.
func isPublic(address netip.Addr) bool {
	if address.Is4() {
		return isOfInternet(address)
	}
	return address.IsGlobalUnicast() && !address.IsPrivate()
}
