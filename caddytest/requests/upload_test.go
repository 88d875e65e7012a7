package requests

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/requestbody"
)

// upload is a connection by which a client sends a request whose body is large or slow.
type upload struct {
	net.Conn

	t      *testing.T
	answer *bufio.Reader
}

func beginUpload(t *testing.T, n *caddytest.Node, head string) upload {
	t.Helper()
	conn := assert.NoError(net.Dial("tcp", strings.TrimPrefix(n.URL, "http://")))(t)
	t.Cleanup(func() { _ = conn.Close() }) // or the test has closed it
	_, err := io.WriteString(conn, head)
	assert.Must(t, err)
	return upload{conn, t, bufio.NewReader(conn)}
}

// read returns the answer, which has to be whole.
func (u upload) read(what string) *http.Response {
	u.t.Helper()
	a, err := u.try()
	assert.FatalIf(u.t, err != nil, "%s: %v", what, err)
	return a
}

// try returns the answer, or why there is no whole refusal.
func (u upload) try() (a *http.Response, err error) {
	u.t.Helper()
	assert.Must(u.t, u.SetReadDeadline(time.Now().Add(time.Minute)))
	if a, err = http.ReadResponse(u.answer, nil); err != nil {
		return nil, err
	}
	body, err := io.ReadAll(a.Body)
	if err != nil || a.StatusCode != http.StatusTooManyRequests || !strings.HasPrefix(string(body), "Too many requests.") {
		return nil, fmt.Errorf("status %d, body %q, %w; want the whole refusal", a.StatusCode, body, err)
	}
	return a, nil
}

// ends returns after how long the server closes the connection.
func (u upload) ends() time.Duration {
	u.t.Helper()
	begin := time.Now()
	_, _ = io.Copy(io.Discard, u.answer) // which also ends by a reset
	return time.Since(begin)
}

// usedUp starts a Caddy whose one unit is used up, with a ban for clients that go on where one is given.
func usedUp(t *testing.T, lines string) *caddytest.Node {
	t.Helper()
	n := caddytest.Start(t, caddytest.Config("", "redis_ratelimit {client_ip} 1 1h {\n"+lines+"\n}\nrespond Hello."))
	n.Get(t, "/").Want(t, http.StatusOK, "Hello.")
	return n
}

// TestUpload_arrives sends bodies that no handler reads, and reads the answer afterwards, as simple clients and servers in front do.
func TestUpload_arrives(t *testing.T) {
	t.Parallel()
	n := usedUp(t, "")
	const size = 8 << 20 // more than sockets hold
	body := strings.Repeat("x", size)
	chunk := fmt.Sprintf("%x\r\n%s\r\n", size, body)
	for name, request := range map[string][2]string{
		"HTTP/1.0":          {fmt.Sprintf("POST / HTTP/1.0\r\nContent-Length: %d\r\n\r\n", size), body},
		"Connection: close": {fmt.Sprintf("PUT / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: %d\r\n\r\n", size), body},
		"kept alive":        {fmt.Sprintf("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n", size), body},
		"chunked":           {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", chunk + "0\r\n\r\n"},
		"chunked, HTTP/1.0": {"POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n", chunk + "0\r\n\r\n"},
		"60 KB, closing":    {"POST / HTTP/1.0\r\nContent-Length: 60000\r\n\r\n", body[:60_000]},
	} {
		for arrived, tries := 0, 0; arrived < 5; tries++ {
			begin := time.Now()
			u := beginUpload(t, n, request[0])
			_, err := io.WriteString(u, request[1])
			var a *http.Response
			if err == nil {
				a, err = u.try()
			}
			if err != nil && time.Since(begin) > requestbody.UploadTime && tries < 100 {
				continue // the server reads on for so long, which a busy machine needs
			}
			assert.FatalIf(t, err != nil, "%s: %v", name, err)
			assert.ErrorIf(t, !a.Close || a.ContentLength < 0, "%s: the answer is of length %d, closing %v", name, a.ContentLength, a.Close)
			arrived++
		}
	}
}

// TestUpload_early reads the answer before the body has been sent, which then may take no longer than a while.
func TestUpload_early(t *testing.T) {
	t.Parallel()
	n := usedUp(t, "")
	const most = 30 * time.Second // of a busy machine, for two seconds
	for name, head := range map[string]string{
		"large":   "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000000\r\n\r\nabc",
		"chunked": "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
		"small":   "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nabc",
		"awaited": "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 1000000000\r\n\r\n",
	} {
		u := beginUpload(t, n, head)
		u.read(name)
		took := u.ends()
		assert.ErrorIf(t, took > most, "%s: the connection was open for %v after the answer", name, took)
	}
	// A small body that arrives costs no connection.
	u := beginUpload(t, n, "")
	for range 3 {
		_, err := io.WriteString(u, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc")
		assert.Must(t, err)
		assert.ErrorIf(t, u.read("a small body").Close, "a small body costs the connection")
		<-time.After(10 * time.Millisecond)
	}
}

// TestUpload_flood refuses a thousand slow uploads at once: all of them end, and others are served meanwhile.
func TestUpload_flood(t *testing.T) {
	t.Parallel()
	n := usedUp(t, "")
	before := n.Goroutines(t)
	var uploads sync.WaitGroup
	for i := range 1000 {
		head := "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000000\r\n\r\nabc"
		if i%2 == 0 {
			head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nabc"
		}
		u := beginUpload(t, n, head)
		uploads.Go(func() { u.ends() })
	}
	for range 10 {
		n.Get(t, "/").Want(t, http.StatusTooManyRequests, caddytest.Any)
	}
	begin := time.Now()
	uploads.Wait()
	t.Logf("the last connection was closed %v after all had been sent", time.Since(begin))
	assert.Retry(t, "the goroutines are back", func() (again bool, seen any) {
		now := n.Goroutines(t)
		return now > before+20, fmt.Sprintf("%d goroutines, %d before", now, before)
	})
}

// TestUpload_banned reads nothing of what the banned and the blocked send.
func TestUpload_banned(t *testing.T) {
	t.Parallel()
	n := usedUp(t, "ban 1h")
	n.Get(t, "/").Want(t, http.StatusTooManyRequests, caddytest.Any) // begins the ban
	assert.Retry(t, "the connection is closed sooner than a body is read on", func() (again bool, seen any) {
		u := beginUpload(t, n, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000000\r\n\r\nabc")
		u.read("banned")
		took := u.ends()
		return took > 1500*time.Millisecond, took // net/http takes half a second, and a busy machine longer
	})
}
