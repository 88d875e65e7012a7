package redisratelimit

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/adminapi"
)

// newExplained makes the request that is to be explained.
func newExplained(ctx context.Context, e *adminapi.ExplainRequest) (*http.Request, error) {
	if e.Method == "" {
		e.Method = http.MethodGet
	}
	target, err := url.Parse(e.URL)
	if err != nil || (target.Scheme != "http" && target.Scheme != "https" && !strings.HasPrefix(e.URL, "/")) {
		return nil, badInput("url: begin it with http:// or https://, as in https://example.com/search?q=x, or with / where only one server has limits")
	}
	client, err := netip.ParseAddr(e.ClientIP)
	if err != nil {
		return nil, badInput("client_ip: use an address such as 192.0.2.7")
	}
	r, err := http.NewRequestWithContext(ctx, e.Method, target.String(), http.NoBody)
	if err != nil {
		return nil, badInput("method or url: no request can be made of them")
	}
	for name, values := range e.Headers {
		for _, value := range values {
			r.Header.Add(name, value)
		}
	}
	if host := r.Header.Get("Host"); host != "" {
		r.Host = host
	}
	r.RequestURI = target.RequestURI()
	r.RemoteAddr = net.JoinHostPort(client.String(), "0")
	if target.Scheme == "https" {
		r.TLS = syntheticTLS(target.Hostname())
	}
	return r, nil
}

// prepare makes a request what Caddy's servers make of it, for a client whose address is known.
func prepare(r *http.Request, server *caddyhttp.Server, clientIP string) *http.Request {
	r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, localAddress(server, r.URL)))
	r = caddyhttp.PrepareRequest(r, caddy.NewReplacer(), new(discardWriter), server)
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

// syntheticTLS is what matchers see of a request by https.
func syntheticTLS(host string) *tls.ConnectionState {
	return &tls.ConnectionState{Version: tls.VersionTLS13, HandshakeComplete: true, ServerName: host}
}
