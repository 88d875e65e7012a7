package routetrace

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/url"
	"strconv"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// Prepare makes a request what Caddy's server makes of it, for a client whose address is known. See [HeaderFilter] for what the
// server drops of its header.
func Prepare(r *http.Request, server *caddyhttp.Server, clientIP string) *http.Request {
	r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, localAddress(server, r.URL)))
	r = caddyhttp.PrepareRequest(r, caddy.NewReplacer(), new(DiscardWriter), server)
	caddyhttp.SetVar(r.Context(), caddyhttp.ClientIPVarKey, clientIP)
	return r
}

// localAddress is where a request would arrive: at the port of its URL where the server listens there,
// and at the host of its URL where that is an address. Otherwise it is the server's own address.
func localAddress(server *caddyhttp.Server, target *url.URL) net.Addr {
	local := &net.TCPAddr{IP: net.IPv6unspecified}
	for i, text := range server.Listen {
		address, err := caddy.ParseNetworkAddress(text)
		if err != nil || (i > 0 && !hasPort(address, portOf(target))) {
			continue
		}
		if address.IsUnixNetwork() {
			return &net.UnixAddr{Net: address.Network, Name: address.Host}
		}
		local.Port = int(address.StartPort)
		if ip := net.ParseIP(address.Host); ip != nil {
			local.IP = ip
		}
		if hasPort(address, portOf(target)) {
			local.Port, _ = strconv.Atoi(portOf(target))
			break
		}
	}
	if ip := net.ParseIP(target.Hostname()); ip != nil {
		local.IP = ip
	}
	return local
}

// SyntheticTLS is what matchers see of a request by https.
func SyntheticTLS(host string) *tls.ConnectionState {
	return &tls.ConnectionState{Version: tls.VersionTLS13, HandshakeComplete: true, ServerName: host}
}
