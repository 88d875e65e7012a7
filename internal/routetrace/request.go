package routetrace

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/adminapi"
)

// NewRequest makes the request that is to be explained. An error of [adminapi.BadInput] says what is wrong
// with the question.
func NewRequest(ctx context.Context, e *adminapi.ExplainRequest) (*http.Request, error) {
	method := e.Method
	switch {
	case method != "":
	case e.Data != nil:
		method = http.MethodPost
	default:
		method = http.MethodGet
	}
	target, err := url.Parse(e.URL)
	if err != nil || target.Host == "" || target.Scheme != "http" && target.Scheme != "https" {
		return nil, adminapi.BadInput("url: begin it with http:// or https://, as in https://example.com/search?q=x")
	}
	client, err := netip.ParseAddr(e.ClientIP)
	if err != nil {
		return nil, adminapi.BadInput("client_ip: use an address such as 192.0.2.7")
	}
	r, err := http.NewRequestWithContext(ctx, method, target.String(), http.NoBody)
	if err != nil {
		return nil, adminapi.BadInput("method or url: no request can be made of them")
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
		r.TLS = SyntheticTLS(target.Hostname())
	}
	if e.Data == nil {
		return r, nil
	}
	return r, addData(r, e)
}

// formType is the type of a body that curl sends by --data.
const formType = "application/x-www-form-urlencoded"

// addData adds the body to a request, and what its header lacks for that.
func addData(r *http.Request, e *adminapi.ExplainRequest) error {
	data := *e.Data
	if len(data) > adminapi.MaxData {
		return adminapi.BadInput("data: has %d bytes; give at most the first %d, and the length of all in the header Content-Length",
			len(data), adminapi.MaxData)
	}
	if !e.HasHeader("Content-Type") {
		r.Header.Set("Content-Type", formType)
	}
	r.ContentLength = int64(len(data))
	if announced := r.Header.Get("Content-Length"); announced != "" {
		n, err := strconv.ParseInt(announced, 10, 64)
		if err != nil || n < 0 {
			return adminapi.BadInput("headers: Content-Length: use the number of the body's bytes, or leave it out")
		}
		r.ContentLength = n
	}
	r.Header.Set("Content-Length", strconv.FormatInt(r.ContentLength, 10))
	if r.ContentLength > 0 {
		r.Body = &givenBody{data: data, left: r.ContentLength}
	}
	return nil
}

// errDataEnds is the error of a body of which a limiter reads more than the question has.
var errDataEnds = errors.New("data: the body is longer by its Content-Length, and a limiter reads it to the end")

// givenBody is a request's body of which a part may be missing.
type givenBody struct {
	data []byte // that is not read yet
	left int64  // how long the body is from here on
}

// Read implements [io.Reader].
func (b *givenBody) Read(p []byte) (n int, err error) {
	switch {
	case b.left == 0:
		return 0, io.EOF
	case len(b.data) == 0:
		return 0, errDataEnds
	}
	n = copy(p[:min(int64(len(p)), b.left)], b.data)
	b.data, b.left = b.data[n:], b.left-int64(n)
	return n, nil
}

// Close implements [io.Closer].
func (*givenBody) Close() error { return nil }

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
