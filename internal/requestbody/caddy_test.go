package requestbody_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/requestbody"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
	_ "github.com/caddyserver/caddy/v2/modules/caddytls"
	_ "github.com/caddyserver/caddy/v2/modules/filestorage"
	_ "github.com/caddyserver/caddy/v2/modules/logging"
	"github.com/quic-go/quic-go/http3"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

func init() {
	caddy.RegisterModule(hook{})
	caddy.RegisterModule(digest{})
}

// hook is a handler of Caddy that does what a test says. The request names it in a header field.
type hook struct {
	Field string `json:"field"`
}

// hooks are the functions of running tests, by name.
var hooks sync.Map

type hookFunc = func(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error

func (hook) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.hook", New: func() caddy.Module { return new(hook) }}
}

func (h *hook) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	f, ok := hooks.Load(r.Header.Get(h.Field))
	if !ok {
		return next.ServeHTTP(w, r)
	}
	return f.(hookFunc)(w, r, next) //nolint:forcetypeassert,errcheck // nothing else is stored
}

// register has the hooks of a field call a function during a test, and returns the field's value.
func register(t testing.TB, f hookFunc) (name string) {
	name = fmt.Sprintf("%s %p", t.Name(), &f)
	hooks.Store(name, f)
	t.Cleanup(func() { hooks.Delete(name) })
	return name
}

// seen is what a handler or a backend behind got.
type seen struct {
	Digest  string
	Length  int64  // that was announced; -1: none
	Read    int    // bytes
	Trailer string // of the field X-End
	Failure string
	Proxied bool // by a proxy, and not by an error route in its place
}

// digest answers with what it sees of a body.
type digest struct{}

func (digest) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.digest", New: func() caddy.Module { return new(digest) }}
}

func (digest) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	answerSeen(w, r)
	return nil
}

func answerSeen(w http.ResponseWriter, r *http.Request) {
	hash := sha256.New()
	n, err := io.CopyBuffer(struct{ io.Writer }{hash}, struct{ io.Reader }{r.Body}, make([]byte, 1000))
	s := seen{hex.EncodeToString(hash.Sum(nil)), r.ContentLength, int(n), r.Trailer.Get("X-End"), "", r.Header.Get("Via") != ""}
	if err != nil {
		s.Failure = err.Error()
	}
	_ = json.NewEncoder(w).Encode(s) // the client may have left
}

// site is a Caddy with a server for each way to have timeouts, and clients for each version of HTTP.
type site struct {
	tls, plain, bare, bareTLS, timed, timedBare string // addresses
	clients                                     map[string]http.RoundTripper
	backend                                     *httptest.Server
}

var theSite *site

func TestMain(m *testing.M) {
	s, stop, err := startSite()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	theSite = s
	code := m.Run()
	stop()
	os.Exit(code)
}

// routes are the ways that the tests' requests go.
const routes = `[
	{"match": [{"path": ["/digest*"]}], "handle": [FIRST, SECOND, DIGEST]},
	{"match": [{"path": ["/limited*"]}], "handle": [{"handler": "request_body", "max_size": 100}, FIRST, DIGEST]},
	{"match": [{"path": ["/between*"]}], "handle": [FIRST, {"handler": "request_body", "max_size": 5000}, SECOND, DIGEST]},
	{"match": [{"path": ["/set*"]}], "handle": [FIRST, {"handler": "request_body", "set": "other"}, SECOND, DIGEST]},
	{"match": [{"path": ["/placeholder*"]}], "handle": [FIRST, {"handler": "static_response", "body": "{http.request.body}"}]},
	{"match": [{"path": ["/proxy*"]}], "handle": [FIRST, {"handler": "reverse_proxy", "upstreams": [{"dial": "BACKEND"}]}]},
	{"match": [{"path": ["/retries*"]}], "handle": [FIRST, {"handler": "reverse_proxy",
		"load_balancing": {"selection_policy": {"policy": "first"}, "retries": 3},
		"health_checks": {"passive": {"fail_duration": "1m"}}, "upstreams": [{"dial": "DEAD"}, {"dial": "BACKEND"}]}]},
	{"match": [{"path": ["/buffered*"]}], "handle": [FIRST, {"handler": "reverse_proxy", "request_buffers": 100000,
		"upstreams": [{"dial": "BACKEND"}]}]}
]`

// serverConfig is a server of Caddy; siteConfig a Caddy with six.
const (
	serverConfig = `{"listen": [%q], "automatic_https": {"disable": true}, %s, "routes": %s,
		"errors": {"routes": [{"handle": [{"handler": "hook", "field": "X-Error"}, {"handler": "digest"}]}]}}`
	siteConfig = `{"admin": {"disabled": true, "config": {"persist": false}}, "storage": {"module": "file_system", "root": %q},
		"logging": {"logs": {"default": {"level": "PANIC"}}},
		"apps": {"tls": {"certificates": {"load_pem": [{"certificate": %q, "key": %q}]}}, "http": {"servers": {
			"tls": %s, "plain": %s, "bare": %s, "timed": %s, "bareTLS": %s, "timedBare": %s}}}}`
)

func startSite() (s *site, stop func(), err error) {
	folder, err := os.MkdirTemp("", "requestbody")
	if err != nil {
		return nil, nil, err
	}
	backend := httptest.NewServer(http.HandlerFunc(answerSeen))
	addresses, err := freeAddresses(7)
	if err != nil {
		return nil, nil, err
	}
	s = &site{tls: addresses[0], plain: addresses[1], bare: addresses[2], timed: addresses[3], bareTLS: addresses[4], timedBare: addresses[5],
		clients: newClients(), backend: backend}
	certificate, key, err := newCertificate()
	if err != nil {
		return nil, nil, err
	}
	handlers := strings.NewReplacer("BACKEND", strings.TrimPrefix(backend.URL, "http://"), "DEAD", addresses[6],
		"FIRST", `{"handler": "hook", "field": "X-First"}`, "SECOND", `{"handler": "hook", "field": "X-Second"}`,
		"DIGEST", `{"handler": "digest"}`).Replace(routes)
	server := func(address, options string) string { return fmt.Sprintf(serverConfig, address, options, handlers) }
	const overTLS, open = `"protocols": ["h1", "h2", "h3"], "tls_connection_policies": [{}]`, `"protocols": ["h1", "h2c"]`
	config := fmt.Sprintf(siteConfig, folder, certificate, key, server(s.tls, overTLS), server(s.plain, open),
		server(s.bare, open+`, "read_idle_timeout": -1`), server(s.timed, open+`, "read_timeout": "2s"`),
		server(s.bareTLS, overTLS+`, "read_idle_timeout": -1`), server(s.timedBare, open+`, "read_timeout": "2s", "read_idle_timeout": -1`))
	if err := caddy.Load([]byte(config), true); err != nil {
		return nil, nil, err
	}
	return s, func() {
		for _, c := range s.clients {
			if closer, ok := c.(io.Closer); ok {
				_ = closer.Close() // the process ends
			}
		}
		_ = caddy.Stop()
		backend.Close()
		_ = os.RemoveAll(folder)
	}, nil
}

// freeAddresses returns addresses whose ports were free.
func freeAddresses(count int) (addresses []string, err error) {
	var listeners []net.Listener
	for err == nil && len(listeners) < count {
		var listener net.Listener
		if listener, err = net.Listen("tcp", "127.0.0.1:0"); err == nil {
			listeners = append(listeners, listener)
			addresses = append(addresses, listener.Addr().String())
		}
	}
	for _, listener := range listeners { // behind the last one, so that all differ
		_ = listener.Close()
	}
	return addresses, err
}

func newCertificate() (certificate, key string, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", "", err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		return "", "", err
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})), err
}

// versions are the versions of HTTP that requests are sent by, and over what.
var versions = []string{"HTTP/1.1", "HTTP/2.0", "HTTP/2.0 cleartext", "HTTP/3.0"}

// newClients returns a client for each version.
func newClients() map[string]http.RoundTripper {
	trust := func() *tls.Config { return &tls.Config{InsecureSkipVerify: true, ServerName: "localhost"} }
	clients := map[string]http.RoundTripper{"HTTP/3.0": &http3.Transport{TLSClientConfig: trust()}}
	for name, set := range map[string]func(*http.Protocols){
		"HTTP/1.1":           func(p *http.Protocols) { p.SetHTTP1(true) },
		"HTTP/2.0":           func(p *http.Protocols) { p.SetHTTP2(true) },
		"HTTP/2.0 cleartext": func(p *http.Protocols) { p.SetUnencryptedHTTP2(true) },
	} {
		transport := &http.Transport{TLSClientConfig: trust(), Protocols: new(http.Protocols), ExpectContinueTimeout: time.Minute}
		set(transport.Protocols)
		clients[name] = transport
	}
	return clients
}

// url returns the URL of a path at the server with Caddy's usual timeouts.
func (s *site) url(version, path string) string {
	switch version {
	case "HTTP/2.0", "HTTP/3.0":
		return "https://" + s.tls + path
	}
	return "http://" + s.plain + path
}

// request is a request of a test.
type request struct {
	version, url string
	body         []byte
	chunked      bool      // its length is not announced
	stream       io.Reader // in place of the body's bytes; nil: these
	header       http.Header
	trailer      bool // X-End follows a body without a length
}

// do sends a request and returns status and body of the answer.
func (q request) do(ctx context.Context) (status int, body string, err error) {
	stream := q.stream
	if stream == nil {
		stream = struct{ io.Reader }{bytes.NewReader(q.body)}
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, q.url, stream)
	if err != nil {
		return 0, "", err
	}
	r.ContentLength = int64(len(q.body))
	if q.chunked {
		r.ContentLength = -1
	}
	r.Header = q.header.Clone()
	if q.trailer {
		r.Trailer = http.Header{"X-End": {"reached"}}
	}
	response, err := theSite.clients[q.version].RoundTrip(r)
	if err != nil {
		return 0, "", err
	}
	answer, err := io.ReadAll(response.Body)
	return response.StatusCode, string(answer), errors.Join(err, response.Body.Close())
}

// ask sends a request and returns what a handler behind has seen.
func (q request) ask(t *testing.T) (got seen) {
	t.Helper()
	status, body, err := q.do(t.Context())
	assert.Must(t, err)
	assert.Equal(t, status, http.StatusOK, "the status")
	assert.Must(t, json.Unmarshal([]byte(body), &got))
	return got
}

// checkUnchanged checks that a handler behind sees the bytes, and all else as it does where the hooks are not called.
func (q request) checkUnchanged(t *testing.T, body []byte) {
	t.Helper()
	got, plain := q.ask(t), q
	plain.header = q.header.Clone()
	plain.header.Del("X-First")
	plain.header.Del("X-Second")
	assert.Equal(t, got, plain.ask(t), "what the handler behind sees")
	digest := sha256.Sum256(body)
	assert.ErrorIf(t, got.Digest != hex.EncodeToString(digest[:]) || got.Failure != "", "the handler behind sees %v", got)
}

// textOf returns a body of a size, in which no part equals another one.
func textOf(size int) []byte {
	body := make([]byte, size)
	for i := range body {
		body[i] = byte(i ^ i>>8*7 ^ i>>16*13)
	}
	return body
}
