package gate

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/quic-go/quic-go/http3"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// TestInclude_forged has clients of each protocol that claim to be an include, even with its address.
func TestInclude_forged(t *testing.T) {
	var served atomic.Int64
	forged := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		served.Add(1)
		r.RemoteAddr = includeAddr
		assert.ErrorIf(t, isInclude(r), "a request by %s passes as an include", r.Proto)
	})
	open, secure := httptest.NewUnstartedServer(forged), httptest.NewUnstartedServer(forged)
	open.Config.Protocols = protocols((*http.Protocols).SetHTTP1, (*http.Protocols).SetUnencryptedHTTP2)
	open.Start()
	secure.EnableHTTP2 = true
	secure.StartTLS()
	t.Cleanup(open.Close)
	t.Cleanup(secure.Close)
	dial, overUDP := serveElsewhere(t, open.Config, secure.TLS)
	for _, client := range []struct {
		transport http.RoundTripper
		url       string
	}{
		{&http.Transport{Protocols: protocols((*http.Protocols).SetHTTP1)}, open.URL},
		{&http.Transport{Protocols: protocols((*http.Protocols).SetUnencryptedHTTP2)}, open.URL},
		{&http.Transport{DialContext: dial}, "http://socket"},
		{secure.Client().Transport, secure.URL},
		{&http3.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}, overUDP},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, client.url, http.NoBody)
		r.RequestURI = ""
		r.Header.Set(includeHeader, "1")
		response := assert.NoError((&http.Client{Transport: client.transport}).Do(r))(t)
		_ = response.Body.Close()
	}
	assert.Equal(t, served.Load(), 5, "the number of requests that were served")
}

func protocols(set ...func(*http.Protocols, bool)) *http.Protocols {
	p := new(http.Protocols)
	for _, set := range set {
		set(p, true)
	}
	return p
}

// serveElsewhere has a server serve a unix socket too, and HTTP/3 with certificates, until the test's end.
func serveElsewhere(t *testing.T, server *http.Server, certificates *tls.Config) (dial func(context.Context, string, string) (net.Conn, error), url string) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	listener := assert.NoError(net.Listen("unix", socket))(t)
	datagrams := assert.NoError(net.ListenPacket("udp", "127.0.0.1:0"))(t)
	third := &http3.Server{Handler: server.Handler, TLSConfig: http3.ConfigureTLSConfig(certificates.Clone())}
	go func() { _ = server.Serve(listener) }()
	go func() { _ = third.Serve(datagrams) }()
	t.Cleanup(func() {
		_ = third.Close()
		_ = datagrams.Close()
	})
	dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}
	return dial, "https://" + datagrams.LocalAddr().String()
}
