package routetrace

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"net/url"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/adminapi"
)

// NewRequest makes the request that is to be explained. An error of [adminapi.BadInput] says what is wrong
// with the question.
func NewRequest(ctx context.Context, e *adminapi.ExplainRequest) (*http.Request, error) {
	if e.Method == "" {
		e.Method = http.MethodGet
	}
	target, err := url.Parse(e.URL)
	if err != nil || target.Host == "" || target.Scheme != "http" && target.Scheme != "https" {
		return nil, adminapi.BadInput("url: begin it with http:// or https://, as in https://example.com/search?q=x")
	}
	client, err := netip.ParseAddr(e.ClientIP)
	if err != nil {
		return nil, adminapi.BadInput("client_ip: use an address such as 192.0.2.7")
	}
	r, err := http.NewRequestWithContext(ctx, e.Method, target.String(), http.NoBody)
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
	return r, nil
}
