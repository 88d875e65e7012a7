package caddytest

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// Holder is an upstream whose requests run until the test ends them. How a request runs is said by the
// beginning of its path: /stream is an event stream, /websocket echoes what it gets, /broken ends without a
// response, /cut in the middle of one, and /quick does not wait. Others are answered when they end. A parameter
// "tokens" is told in the header X-Tokens-Used.
type Holder struct {
	Addr   string
	EndAll func() // ends all requests, and those that come later at once

	ends chan struct{}
	all  chan struct{} // closed: every request ends

	mu            sync.Mutex
	running, most int
}

// NewHolder starts an upstream for the time of a test.
func NewHolder(t testing.TB) *Holder {
	t.Helper()
	h := &Holder{ends: make(chan struct{}), all: make(chan struct{})}
	h.EndAll = sync.OnceFunc(func() { close(h.all) })
	h.Addr = Serve(t, h.ServeHTTP)
	t.Cleanup(h.EndAll) // before the server waits for them
	return h
}

// ServeHTTP implements [http.Handler]. A request for a WebSocket is one on any path.
func (h *Holder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.count(1)
	defer h.count(-1)
	kind, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if r.Header.Get("Upgrade") == "websocket" {
		kind = "websocket"
	}
	if tokens := r.URL.Query().Get("tokens"); tokens != "" {
		w.Header().Set("X-Tokens-Used", tokens)
	}
	switch kind {
	case "quick":
	case "websocket":
		h.echo(w)
	case "stream":
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: begun\n\n")
		_ = http.NewResponseController(w).Flush() // it is supported
		h.wait(r.Context().Done())
		_, _ = io.WriteString(w, "data: ended\n\n")
	case "broken", "cut":
		if kind == "cut" {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "begun")
			_ = http.NewResponseController(w).Flush() // it is supported
		}
		h.wait(r.Context().Done())
		panic(http.ErrAbortHandler)
	default:
		h.wait(r.Context().Done())
		_, _ = io.WriteString(w, "done")
	}
}

// echo returns what a WebSocket sends, until the client closes it or the test ends it.
func (h *Holder) echo(w http.ResponseWriter) {
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	defer conn.Close() //nolint:errcheck // both sides know
	_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	closed := make(chan struct{})
	go func(conn net.Conn) {
		defer close(closed)
		_, _ = io.Copy(conn, buffered)
	}(conn)
	h.wait(closed)
}

// wait waits until the request is ended by the test, or has ended by itself.
func (h *Holder) wait(gone <-chan struct{}) {
	select {
	case <-h.ends:
	case <-h.all:
	case <-gone:
	}
}

func (h *Holder) count(change int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.running += change
	h.most = max(h.most, h.running)
}

// Running returns how many requests run now, and how many ran at a time at most.
func (h *Holder) Running() (now, most int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.running, h.most
}

// HeldRequest is a request that an upstream holds, as its client sees it.
type HeldRequest struct {
	Leave func()        // the client goes away
	Ended chan struct{} // the client has the whole response, or none

	Status int // of the response once it has ended; 0: there is none, or a part
}

// Begin sends a request that the upstream holds, and waits until it runs there.
func (h *Holder) Begin(t testing.TB, n *Node, path string, headers ...string) *HeldRequest {
	t.Helper()
	before, _ := h.Running()
	r := n.Hold(t, path, headers...)
	h.WaitRunning(t, before+1)
	return r
}

// Hold sends a request, and waits for nothing.
func (n *Node) Hold(t testing.TB, path string, headers ...string) *HeldRequest {
	t.Helper()
	ctx, leave := context.WithCancel(t.Context())
	t.Cleanup(leave)
	request := GetRequest(ctx, t, n.URL+path)
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		request.Header.Set(name, value)
	}
	if strings.HasPrefix(path, "/websocket") {
		Upgrade(request)
	}
	r := &HeldRequest{Leave: leave, Ended: make(chan struct{})}
	go func() {
		defer close(r.Ended)
		response, err := n.Client.Transport.RoundTrip(request)
		if err == nil { // otherwise the upstream broke it off, or the client left
			context.AfterFunc(ctx, func() { _ = response.Body.Close() }) // of a WebSocket, which the context does not end
			if _, err = io.Copy(io.Discard, response.Body); err == nil {
				r.Status = response.StatusCode
			}
			_ = response.Body.Close() // Caddy waits for both ends of a WebSocket
		}
	}()
	return r
}

// Upgrade has a request ask for a WebSocket.
func Upgrade(request *http.Request) {
	for name, value := range map[string]string{"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
		"Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="} {
		request.Header.Set(name, value)
	}
}

// WaitRunning waits until so many requests run.
func (h *Holder) WaitRunning(t testing.TB, want int) {
	t.Helper()
	assert.Retry(t, fmt.Sprintf("%d requests run", want), func() (again bool, seen any) {
		now, _ := h.Running()
		return now != want, fmt.Sprintf("%d do", now)
	})
}

// EndOne ends one of the requests that run.
func (h *Holder) EndOne() { h.ends <- struct{}{} }
