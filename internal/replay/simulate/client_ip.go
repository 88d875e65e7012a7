package simulate

import (
	"encoding/json"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay/accesslog"
)

// proxyTrust is what a server's configuration says about proxies in front of it. Caddy keeps its own to itself.
type proxyTrust struct {
	ranges  []netip.Prefix
	headers []string // whose values are lists of addresses
	strict  bool     // the last address that is not trusted counts, not the first of all
	unasked string   // the source of addresses, if it is one that would have to ask a network or run code
}

// proxyConfig is the part of a server's configuration about proxies in front of it.
type proxyConfig struct {
	TrustedProxies       json.RawMessage `json:"trusted_proxies"`
	TrustedProxiesStrict int             `json:"trusted_proxies_strict"`
	ClientIPHeaders      []string        `json:"client_ip_headers"`
}

// newProxyTrust returns what a server says; nil if it trusts no proxy.
func newProxyTrust(ctx caddy.Context, raw *proxyConfig) (*proxyTrust, error) {
	if len(raw.TrustedProxies) == 0 {
		return nil, nil //nolint:nilnil // a server without proxies is the usual one
	}
	var source struct {
		Source string `json:"source"`
		caddyhttp.StaticIPRange
	}
	if err := json.Unmarshal(raw.TrustedProxies, &source); err != nil {
		return nil, err
	}
	trust := &proxyTrust{headers: raw.ClientIPHeaders, strict: raw.TrustedProxiesStrict > 0}
	if trust.headers == nil {
		trust.headers = []string{"X-Forwarded-For"}
	}
	if source.Source != "static" {
		trust.unasked = source.Source
		return trust, nil
	}
	if err := source.Provision(ctx); err != nil {
		return nil, err
	}
	trust.ranges = source.GetIPRanges(nil)
	return trust, nil
}

// trusts reports whether an address is one of a trusted proxy.
func (t *proxyTrust) trusts(address netip.Addr) bool {
	return slices.ContainsFunc(t.ranges, func(p netip.Prefix) bool { return p.Contains(address) })
}

// client returns the client that Caddy would take for an entry's, if the log has the header and the peer; otherwise that of
// the log.
func (t *proxyTrust) client(e *accesslog.Entry) (client string, trusted bool) {
	if t == nil || t.unasked != "" {
		return e.Client, false
	}
	peer, err := netip.ParseAddr(e.Remote)
	has := func(name string) bool { return len(e.Header.Values(name)) > 0 }
	if err != nil || !slices.ContainsFunc(t.headers, has) {
		return e.Client, false
	}
	switch {
	case !t.trusts(peer):
		return peer.String(), false
	case t.strict:
		return t.lastUntrusted(e.Header, peer.String()), true
	}
	return t.first(e.Header, peer.String()), true
}

// first returns the first address in the headers.
func (t *proxyTrust) first(header http.Header, otherwise string) string {
	for _, name := range t.headers {
		for part := range strings.SplitSeq(strings.Join(header.Values(name), ","), ",") {
			if address, ok := forwardedAddress(part); ok {
				return address.String()
			}
		}
	}
	return otherwise
}

// lastUntrusted returns the last address that is not trusted, of the first header that has one.
func (t *proxyTrust) lastUntrusted(header http.Header, otherwise string) string {
	for _, name := range t.headers {
		parts := strings.Split(strings.Join(header.Values(name), ","), ",")
		for _, part := range slices.Backward(parts) {
			if address, ok := forwardedAddress(part); ok && !t.trusts(address) {
				return address.String()
			}
		}
	}
	return otherwise
}

// forwardedAddress reads an entry of X-Forwarded-For as Caddy does, with or without port and zone.
func forwardedAddress(part string) (address netip.Addr, ok bool) {
	host, _, err := net.SplitHostPort(part)
	if err != nil {
		host = part
	}
	host, _, _ = strings.Cut(strings.TrimSpace(host), "%")
	address, err = netip.ParseAddr(host)
	return address, err == nil
}
