package docs

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// hold runs a WebSocket until its client closes it, and a request with hold in its query until the client
// leaves. It reports whether the request is one of these.
func (b *backend) hold(w http.ResponseWriter, r *http.Request) bool {
	gone := r.Context().Done()
	switch {
	case r.Header.Get("Upgrade") == "websocket":
		conn, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		defer conn.Close() //nolint:errcheck // both sides know
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		closed := make(chan struct{})
		go func(conn net.Conn, from *bufio.ReadWriter) {
			defer close(closed)
			_, _ = io.Copy(conn, from)
		}(conn, buffered)
		gone = closed
	case !r.URL.Query().Has("hold"):
		return false
	}
	b.run(1)
	defer b.run(-1)
	select {
	case <-gone:
	case <-b.ended:
	}
	return true
}

func (b *backend) run(change int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.running += change
}

// end ends the requests that are held, and those to come.
func (b *backend) end() { b.once.Do(func() { close(b.ended) }) }

// waitRunning waits until the backend holds so many requests.
func (b *backend) waitRunning(t *testing.T, want int) {
	t.Helper()
	redistest.WaitFor(t, fmt.Sprintf("the backend runs %d requests", want), func() error {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.running != want {
			return fmt.Errorf("it runs %d", b.running)
		}
		return nil
	})
}

// start sends requests that the backend holds, and returns the function by which their clients leave.
func (e recipeEnv) start(t *testing.T, count int, path string, headers ...string) (leave func()) {
	t.Helper()
	e.backend.mu.Lock()
	before := e.backend.running
	e.backend.mu.Unlock()
	ctx, leave := context.WithCancel(t.Context())
	t.Cleanup(leave)
	for range count {
		request := caddytest.GetRequest(ctx, t, e.URL+path)
		for _, line := range headers {
			name, value, _ := strings.Cut(line, ": ")
			request.Header.Set(name, value)
		}
		go func() {
			response, err := e.Client.Transport.RoundTrip(request)
			if err == nil {
				context.AfterFunc(ctx, func() { _ = response.Body.Close() }) // of a WebSocket
			}
		}()
	}
	e.backend.waitRunning(t, before+count)
	return leave
}

// checkAllowedAgain waits until a request passes.
func (e recipeEnv) checkAllowedAgain(t *testing.T, path string, headers ...string) {
	t.Helper()
	redistest.WaitFor(t, "a place is free", func() error {
		if a := e.Get(t, path, headers...); a.Status != http.StatusOK {
			return fmt.Errorf("got %v", a)
		}
		return nil
	})
}

func recipeParallel(t *testing.T, e recipeEnv) {
	const key = "X-Api-Key: key-of-acme"
	leave := e.start(t, 2, "/?hold", key)
	caddytest.CheckRefusal(t, e.Get(t, "/reports", key), http.StatusTooManyRequests)
	caddytest.CheckQuota(t, e.Get(t, "/", key), 4, 1)
	e.start(t, 2, "/?hold", key)
	a := e.Get(t, "/", key)
	caddytest.CheckRefusal(t, a, http.StatusTooManyRequests)
	caddytest.CheckQuota(t, a, 4, 0)
	caddytest.CheckQuota(t, e.Get(t, "/", "X-Api-Key: key-of-bolt"), 4, 3)
	if a := e.Get(t, "/"); a.Status != http.StatusBadRequest {
		t.Errorf("got %v for no key", a)
	}
	leave()
	e.checkAllowedAgain(t, "/", key)
	e.WaitForRefund(t, "hour", "key-of-acme", 1000-6) // the denied are not counted
}

func recipeDownloads(t *testing.T, e recipeEnv) {
	leave := e.start(t, 2, "/files/large?hold")
	caddytest.CheckRefusal(t, e.Get(t, "/files/small"), http.StatusTooManyRequests)
	if a := e.Get(t, "/page"); a.Status != http.StatusOK || caddytest.HasQuota(a) {
		t.Errorf("got %v; want other paths left alone", a)
	}
	leave()
	e.checkAllowedAgain(t, "/files/small")
}

func recipeWebSockets(t *testing.T, e recipeEnv) {
	const session = "Cookie: session=one"
	upgrade := []string{"Connection: keep-alive, Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", session}
	leave := e.start(t, 3, "/socket", upgrade...)
	caddytest.CheckRefusal(t, e.Get(t, "/socket", upgrade...), http.StatusTooManyRequests)
	if a := e.Get(t, "/page", session); a.Status != http.StatusOK || caddytest.HasQuota(a) {
		t.Errorf("got %v; want other requests left alone", a)
	}
	leave()
	e.CheckMetric(t, `running{policy="websockets"}`, 0)
	e.start(t, 3, "/socket", upgrade...)
}

func recipeSlowBackend(t *testing.T, e recipeEnv) {
	e.start(t, 8, "/?hold")
	a := e.Get(t, "/")
	caddytest.CheckRefusal(t, a, http.StatusServiceUnavailable)
	caddytest.CheckQuota(t, a, 8, 0)
	e.backend.end()
	e.checkAllowedAgain(t, "/")
	e.CheckMetric(t, `running{policy="backend"}`, 0)
}
