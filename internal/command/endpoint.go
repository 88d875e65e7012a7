package command

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
)

// endpoint is an admin endpoint that is asked again and again. Connections stay open, which those of Caddy's own commands
// do not.
type endpoint struct {
	address string
	base    string // of its URLs
	origin  string // that it wants to see; empty: none
	client  *http.Client
}

const (
	// endpointPatience is how long an answer may take.
	endpointPatience = 10 * time.Second

	// maxAnswer bounds an answer, in bytes.
	maxAnswer = 64 << 20
)

// newEndpoint returns the endpoint of an address such as localhost:2019 or unix//run/caddy.sock. With a configuration of
// TLS it is a remote one.
func newEndpoint(address string, secure *tls.Config) (*endpoint, error) {
	parsed, err := caddy.ParseNetworkAddress(strings.TrimPrefix(strings.TrimPrefix(address, "http://"), "https://"))
	if err != nil || parsed.PortRangeSize() > 1 {
		return nil, exitf(exitNotAsked, "the admin address %s is none; use host:port or unix//path", address)
	}
	e := &endpoint{address: address, base: "http://127.0.0.1"} // which Caddy takes from a socket
	target := parsed.JoinHostPort(0)
	switch {
	case parsed.IsUnixNetwork():
		target, _, _ = strings.Cut(parsed.Host, "|") // without permissions
	case secure != nil:
		e.base = "https://" + target
	default:
		e.base = "http://" + target
		e.origin = e.base
	}
	var dialer net.Dialer
	e.client = &http.Client{
		Timeout:       endpointPatience,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return dialer.DialContext(ctx, parsed.Network, target)
			},
			TLSClientConfig: secure, MaxIdleConns: 2, IdleConnTimeout: time.Minute,
		},
	}
	return e, nil
}

// get asks for a path, and returns the status and the body of the answer.
func (e *endpoint) get(ctx context.Context, path string) (status int, body []byte, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, e.base+path, nil)
	if err != nil {
		return 0, nil, err
	}
	if e.origin != "" {
		request.Header.Set("Origin", e.origin)
	}
	response, err := e.client.Do(request)
	if err != nil {
		return errorAnswer(e.address, err)
	}
	defer response.Body.Close()
	body, err = io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	switch {
	case err != nil:
		return 0, nil, fmt.Errorf("the answer of the Caddy at %s broke off: %w", e.address, err)
	case len(body) > maxAnswer:
		return 0, nil, fmt.Errorf("the answer of the Caddy at %s is over %d bytes", e.address, maxAnswer)
	}
	return response.StatusCode, body, nil
}

// clientTLS is how a remote admin endpoint is asked: with a certificate that the endpoint allows. The files are read again
// for each connection, so that they may be replaced.
func clientTLS(certificate, key, authority string) (*tls.Config, error) {
	if (certificate == "") != (key == "") {
		return nil, exitf(exitNotAsked, "--client-cert and --client-key belong together: give both")
	}
	if certificate == "" {
		if authority != "" {
			return nil, exitf(exitNotAsked, "--ca is for remote admin endpoints: give --client-cert and --client-key too")
		}
		return nil, nil //nolint:nilnil // no TLS
	}
	load := func() (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(certificate, key)
		return &pair, err
	}
	if _, err := load(); err != nil {
		return nil, exitf(exitNotAsked, "--client-cert and --client-key are no certificate with its key in PEM: %v", err)
	}
	secure := &tls.Config{
		MinVersion:           tls.VersionTLS12,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return load() },
	}
	if authority == "" {
		return secure, nil
	}
	text, err := os.ReadFile(authority)
	if err == nil && !addTo(secure, text) {
		err = errors.New("it has no certificate in PEM")
	}
	if err != nil {
		return nil, exitf(exitNotAsked, "--ca %s cannot be used: %v", authority, err)
	}
	return secure, nil
}

// addTo makes the authorities of a file those that are trusted, and reports whether there are some.
func addTo(secure *tls.Config, file []byte) bool {
	secure.RootCAs = x509.NewCertPool()
	return secure.RootCAs.AppendCertsFromPEM(file)
}
