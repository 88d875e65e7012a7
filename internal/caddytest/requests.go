package caddytest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/fcgi"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

func newClient() *http.Client {
	return &http.Client{
		Transport:     &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Timeout:       30 * time.Second,
	}
}

// GetRequest returns a GET request without a body.
func GetRequest(ctx context.Context, t testing.TB, url string) *http.Request {
	t.Helper()
	request := assert.NoError(http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody))(t)
	return request
}

// Response is a response of Caddy with its body.
type Response struct {
	Status int
	Header http.Header
	Body   string
	Sent   time.Time
	Took   time.Duration // from the request to the end of the body

	asked string // the request
}

// String formats a response for a test's error.
func (a Response) String() string {
	return fmt.Sprintf("%.300s: status %d, body %q, headers %v, after %v", a.asked, a.Status, a.Body, a.Header, a.Took)
}

// DeniedByRedis reports whether Redis denied the request, or the deny cache repeated a denial.
func (a Response) DeniedByRedis() bool {
	return a.Body == "denied redis" || a.Body == "denied deny_cache"
}

// Get requests a path of the site. Headers are written as in HTTP: "Name: value".
func (n *Node) Get(t testing.TB, path string, headers ...string) Response {
	t.Helper()
	return n.Send(t, http.MethodGet, n.URL+path, "", headers...)
}

// GetTimes requests a path so many times, one after the other.
func (n *Node) GetTimes(t testing.TB, times int, path string, headers ...string) {
	t.Helper()
	for range times {
		n.Get(t, path, headers...)
	}
}

// Send sends a request and fails without a response. It retries where a reload has closed the socket with
// the connection in its queue, because Caddy has not read the request then.
func (n *Node) Send(t testing.TB, method, url, body string, headers ...string) (a Response) {
	t.Helper()
	assert.WaitFor(t, "Caddy takes connections", func() (err error) {
		a, err = n.Try(method, url, body, headers...)
		if err != nil && !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, io.EOF) {
			t.Fatalf("%v\n%s", err, n.Log)
		}
		return err
	})
	return a
}

// Try sends a request. Unlike Get and Send it may be called by any goroutine.
func (n *Node) Try(method, url, body string, headers ...string) (Response, error) {
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return Response{}, err
	}
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Add(name, value)
	}
	r.Close = strings.HasPrefix(url, n.Admin) // each reload starts another admin server
	begin := time.Now()
	response, err := n.Client.Do(r)
	if err != nil {
		return Response{}, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	asked := fmt.Sprintf("%s %s %q", method, url, headers)
	return Response{response.StatusCode, response.Header, string(text), begin, time.Since(begin), asked}, err
}

// Crowd sends so many requests at once and returns the responses.
func (n *Node) Crowd(t testing.TB, size int, path string, headers ...string) []Response {
	t.Helper()
	responses := make([]Response, size)
	var group sync.WaitGroup
	for i := range responses {
		group.Go(func() {
			var err error
			if responses[i], err = n.Try(http.MethodGet, n.URL+path, "", headers...); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	return responses
}

// Load loads another configuration, a Caddyfile unless headers say otherwise, and returns the response of the admin
// API. After a success the new configuration answers alone.
func (n *Node) Load(t testing.TB, text string, headers ...string) Response {
	t.Helper()
	a := n.Send(t, http.MethodPost, n.Admin+"/load", text, append(headers, "Content-Type: text/caddyfile")...)
	if a.Status == http.StatusOK {
		n.AwaitReload(t)
	}
	return a
}

// Reload loads another Caddyfile and fails where Caddy refuses it.
func (n *Node) Reload(t testing.TB, text string) {
	t.Helper()
	if a := n.Load(t, text); a.Status != http.StatusOK {
		t.Fatalf("the reload failed: %v", a)
	}
}

// AwaitReload waits until the configuration loaded last answers alone. Caddy says that it is loaded while the earlier
// one may still take connections, by sockets of its own, and serve those that it has. The admin endpoint may keep two
// sockets: the goroutine that is to serve a new one serves it by whatever server is the current one when it runs, and
// so by the same server as the next socket if it runs late. Nothing is wrong then once each earlier server has stopped.
func (n *Node) AwaitReload(t testing.TB) {
	t.Helper()
	adminLines := func(message string) int {
		return len(n.Log.Lines(func(l LogLine) bool { return l.Logger == "admin" && l.Message == message }))
	}
	for _, url := range []string{n.URL, n.Admin} {
		assert.Retry(t, "one configuration listens", func() (again bool, seen any) {
			sockets := redistest.Listening(t, strings.TrimPrefix(url, "http://"))
			late := url == n.Admin && adminLines("stopped previous server") == adminLines("admin endpoint started")-1
			return sockets > 1 && !late, sockets
		})
	}
	n.Client.CloseIdleConnections()
}

// LocalhostURL returns the URL of the site under its other name, localhost.
func (n *Node) LocalhostURL() string {
	return strings.Replace(n.URL, "127.0.0.1", "localhost", 1)
}

// ServeFastCGI starts a server of FastCGI for the time of a test and returns its address.
func ServeFastCGI(t testing.TB, handler http.Handler) string {
	t.Helper()
	listener := assert.NoError(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = listener.Close() })
	go func() { _ = fcgi.Serve(listener, handler) }()
	return listener.Addr().String()
}

// Serve starts a server for the time of a test and returns its address.
func Serve(t testing.TB, handler http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}
