package rule

import (
	"math"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// This file is about proxies that are trusted without trusted_proxies_strict: Caddy takes the first address in the header, which
// the client has written if the proxies append to what they get.

// TrustedSource returns the ID of the module that has the trusted proxies of a provisioned server; empty: it trusts none, or
// that is not known. Caddy keeps the module to itself, of which the type is all that is looked at.
func TrustedSource(server *caddyhttp.Server) string {
	field := reflect.ValueOf(server).Elem().FieldByName("trustedProxies")
	if field.Kind() != reflect.Interface || field.IsNil() || field.Elem().Kind() != reflect.Pointer {
		return ""
	}
	module, ok := reflect.New(field.Elem().Type().Elem()).Interface().(caddy.Module)
	if !ok {
		return ""
	}
	return string(module.CaddyModule().ID)
}

// WritableAddress is a request whose client's address the client may have written. It has no client's address, which may be a
// key.
type WritableAddress struct {
	Peer string // that passed the request on
}

// String says what is wrong, and what to write.
func (w *WritableAddress) String() string {
	return "requests count by addresses that clients may write: " + w.Peer + " passed on several, of which the first counts. " +
		"Add trusted_proxies_strict; if the last one is that of a proxy of yours, such as a CDN, add it to trusted_proxies first"
}

// believedWatch finds out whether trusted proxies append to a header of which the first address counts. Only requests whose
// header has several addresses are looked at. Proxies that overwrite the header send one address, those that append to one that
// a CDN has written send several each time, those that append to what clients write send several where a client has written
// one: of requests that have mostly one address such a client is told.
type believedWatch struct {
	single, several atomic.Int32 // requests of trusted proxies with one address, and with several
}

const (
	// usualRequests is how many requests have one address before others are unusual, and so many times as many as those.
	usualRequests, usualRatio = 100, 9

	// countedRequests is how many requests with one address are counted.
	countedRequests = 10_000
)

// look returns what is wrong with a request's address; nil: nothing.
func (w *believedWatch) look(r *http.Request, server *caddyhttp.Server) *WritableAddress {
	lines := givingHeader(r, server)
	if lines == nil {
		return nil
	}
	if len(lines) == 1 && strings.IndexByte(lines[0], ',') < 0 {
		if w.single.Load() < countedRequests && isTrustedPeer(r) {
			w.single.Add(1)
		}
		return nil
	}
	if !isTrustedPeer(r) {
		return nil
	}
	if w.several.Load() < math.MaxInt32/2 {
		w.several.Add(1)
	}
	return w.lookAtSeveral(r, server, lines)
}

// lookAtSeveral looks at the addresses of a header that has several.
func (w *believedWatch) lookAtSeveral(r *http.Request, server *caddyhttp.Server, lines []string) *WritableAddress {
	text, _ := caddyhttp.GetVar(r.Context(), caddyhttp.ClientIPVarKey).(string)
	client, err := netip.ParseAddr(text)
	if err != nil {
		return nil
	}
	single, several := int64(w.single.Load()), int64(w.several.Load())
	isUnusual := single >= usualRequests && single >= usualRatio*several
	isPrivate := !isPublic(client.Unmap())
	if !isUnusual && !isPrivate {
		return nil
	}
	passing := lastUntrusted(lines, server)
	if !passing.IsValid() || passing == client || !isUnusual && !isPublic(passing.Unmap()) {
		return nil
	}
	peer, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		peer = "the proxy"
	}
	return &WritableAddress{Peer: peer}
}

// givingHeader returns the lines of the header that gives a client's address; nil: none does.
func givingHeader(r *http.Request, server *caddyhttp.Server) []string {
	for _, name := range server.ClientIPHeaders {
		lines := r.Header.Values(name)
		switch {
		case len(lines) == 0:
		case len(server.ClientIPHeaders) == 1, slices.ContainsFunc(lines, hasAddress):
			return lines
		}
	}
	return nil
}

// hasAddress reports whether a line of a header has an address.
func hasAddress(line string) bool {
	for part := range strings.SplitSeq(line, ",") {
		if forwardedAddress(part).IsValid() {
			return true
		}
	}
	return false
}

// isTrustedPeer reports whether Caddy trusts the peer of a request.
func isTrustedPeer(r *http.Request) bool {
	trusted, _ := caddyhttp.GetVar(r.Context(), caddyhttp.TrustedProxyVarKey).(bool)
	return trusted
}

// maxPassing is how many addresses of a header are looked at, from its end on: a client may write thousands.
const maxPassing = 16

// lastUntrusted returns the last address in a header that the server does not trust; an invalid one if it trusts all.
func lastUntrusted(lines []string, server *caddyhttp.Server) netip.Addr {
	seen := 0
	for _, line := range slices.Backward(lines) {
		for line != "" && seen < maxPassing {
			part := line[strings.LastIndexByte(line, ',')+1:]
			line = strings.TrimSuffix(line[:len(line)-len(part)], ",")
			seen++
			if address := forwardedAddress(part); address.IsValid() && !trusts(server, address) {
				return address
			}
		}
	}
	return netip.Addr{}
}

// trusts reports whether a server would trust a proxy of an address, for which it is asked as for a request.
func trusts(server *caddyhttp.Server, address netip.Addr) bool {
	r := &http.Request{RemoteAddr: netip.AddrPortFrom(address, 0).String(), URL: new(url.URL)}
	return isTrustedPeer(caddyhttp.PrepareRequest(r, caddy.NewEmptyReplacer(), nil, server))
}

// forwardedAddress reads an entry of X-Forwarded-For as Caddy does, with or without port and zone.
func forwardedAddress(part string) netip.Addr {
	host, _, err := net.SplitHostPort(part)
	if err != nil {
		host = part
	}
	host, _, _ = strings.Cut(strings.TrimSpace(host), "%")
	address, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Addr{}
	}
	return address
}
