package requestbody_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/requestbody"
)

// counted counts the bytes that are read of a body.
type counted struct {
	io.ReadCloser
	bytes int
}

func (c *counted) Read(p []byte) (n int, err error) {
	n, err = c.ReadCloser.Read(p)
	c.bytes += n
	return n, err
}

// endless is a body of a gigabyte, of which a client sends what is taken.
type endless struct{ left int }

func (e *endless) Read(p []byte) (n int, err error) {
	if e.left == 0 {
		return 0, io.EOF
	}
	n = min(len(p), e.left)
	e.left -= n
	return n, nil
}

// TestHostile_largeUpload refuses an upload of 1 GB after at most the size and one byte, and nothing where its length is
// announced. The client gets the whole answer.
func TestHostile_largeUpload(t *testing.T) {
	const size, gigabyte = 100000, 1 << 30
	answer := strings.Repeat("too large ", 1000)
	for _, version := range versions {
		for _, chunked := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/%v", version, chunked), func(t *testing.T) {
				account, taken := requestbody.NewAccount(room), make(chan int, 1)
				first := register(t, func(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
					body := &counted{ReadCloser: r.Body}
					r.Body = body
					reading := account.Read(w, r, client, wide(size))
					assert.Equal(t, reading.Result(), requestbody.TooLarge, "the result")
					taken <- body.bytes
					w.WriteHeader(reading.Result().Status())
					_, err := io.WriteString(w, answer)
					return err
				})
				length := int64(gigabyte)
				if chunked {
					length = -1
				}
				r := assert.NoError(http.NewRequestWithContext(t.Context(), http.MethodPost, theSite.url(version, "/digest"), &endless{gigabyte}))(t)
				r.ContentLength, r.Header = length, http.Header{"X-First": {first}}
				response := assert.NoError(theSite.clients[version].RoundTrip(r))(t)
				got := assert.NoError(io.ReadAll(response.Body))(t)
				assert.Must(t, response.Body.Close())
				want := 0
				if chunked {
					want = size + 1
				}
				assert.Equal(t, <-taken, want, "the bytes that were read")
				assert.Equal(t, response.StatusCode, http.StatusRequestEntityTooLarge, "the status")
				assert.ErrorIf(t, string(got) != answer, "the client gets %d bytes of %d", len(got), len(answer))
				checkGivenBack(t, account)
			})
		}
	}
}

// stalled opens connections that send the head of a request and a part of its body, and waits for what the hook does.
func stalled(t *testing.T, count int, name string, announced, sent int) {
	head := fmt.Sprintf("POST /digest HTTP/1.1\r\nHost: localhost\r\nX-First: %s\r\nContent-Length: %d\r\n\r\n", name, announced)
	part := make([]byte, sent)
	for range count {
		c := assert.NoError(net.Dial("tcp", theSite.plain))(t)
		t.Cleanup(func() { _ = c.Close() })
		assert.NoError(io.WriteString(c, head))(t)
		go func() { _, _ = c.Write(part) }() // one that is refused is not taken
	}
}

// TestHostile_onebyteShort has 1,000 connections of an address stop one byte short of their bodies. While some of these wait
// for the byte, the requests of another address are answered. Once the clients have left, nothing is held.
func TestHostile_onebyteShort(t *testing.T) {
	const size, count, room = 128 << 10, 1000, 15 // with what a body takes beside its bytes, 16 are too many
	account, results := requestbody.NewAccount(16<<20), make(chan requestbody.ReadResult, count)
	attack := register(t, func(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
		reading := account.Read(w, r, "198.51.100.0/24", requestbody.Bounds{Size: size, Within: time.Hour})
		results <- reading.Result()
		if status := reading.Result().Status(); status != 0 {
			return caddyhttp.Error(status, errors.New("refused"))
		}
		return nil
	})
	t.Run("attack", func(t *testing.T) {
		stalled(t, count, attack, size, size-1)
		for range count - room {
			assert.Equal(t, <-results, requestbody.NoShare, "the result")
		}
		assert.ErrorIf(t, account.Held() > 2<<20, "the address holds %d bytes", account.Held())
		login := reader(t, account, wide(size), func(got requestbody.Reading) {
			assert.Equal(t, got.Result(), requestbody.Whole, "the result for another address")
		})
		for _, version := range versions {
			q := request{version: version, url: theSite.url(version, "/digest"), body: textOf(200), header: http.Header{"X-First": {login}}}
			q.checkUnchanged(t, q.body)
		}
		assert.ErrorIf(t, account.Held() == 0, "no body waits for its last byte")
	})
	checkGivenBack(t, account)
	for range room { // those that waited, and others that were refused
		result := <-results
		left := result == requestbody.Failed || result == requestbody.NoShare
		assert.ErrorIf(t, !left, "the result is %d", result)
	}
}

// TestHostile_slow has 2,000 connections send the first bytes of their bodies. They take at most 8 MB more than before a
// handler that waits for the same bytes.
func TestHostile_slow(t *testing.T) {
	const count = 2000
	account := requestbody.NewAccount(128 << 20)
	var arrived atomic.Int64
	reading := register(t, func(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
		r.Body = &watched{r.Body, &arrived}
		account.Read(w, r, r.RemoteAddr, wide(1<<20))
		return nil
	})
	waiting := register(t, func(_ http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
		var some [200]byte
		_, _ = io.ReadFull(&watched{r.Body, &arrived}, some[:]) // the client leaves
		return nil
	})
	idle := runtime.NumGoroutine()
	used := func(name string) (bytes int64) {
		arrived.Store(0)
		t.Run("connections", func(t *testing.T) {
			before := memory()
			stalled(t, count, name, 1<<20, 100)
			assert.Retry(t, "all have arrived", func() (again bool, seen any) { return arrived.Load() < count, arrived.Load() })
			bytes = memory() - before
		})
		assert.Retry(t, "all have left", func() (again bool, seen any) { return runtime.NumGoroutine() > idle+10, runtime.NumGoroutine() })
		return bytes
	}
	used(waiting) // what is kept of connections
	plain, read := used(waiting), used(reading)
	t.Logf("%d connections take %d bytes, %d with their bodies read", count, plain, read)
	assert.ErrorIf(t, read-plain > 8<<20, "%d bytes more", read-plain)
	checkGivenBack(t, account)
}

// watched counts the bodies of which something has arrived.
type watched struct {
	io.ReadCloser
	arrived *atomic.Int64
}

func (w *watched) Read(p []byte) (n int, err error) {
	n, err = w.ReadCloser.Read(p)
	if n > 0 {
		w.arrived.Add(1)
	}
	return n, err
}

// memory returns what objects and stacks take.
func memory() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// TestHostile_clientReadsLast has a client read the answer only when all is sent.
func TestHostile_clientReadsLast(t *testing.T) {
	body := textOf(500000)
	for _, size := range []int{len(body), 1000} {
		account := requestbody.NewAccount(room)
		first := reader(t, account, wide(size), func(got requestbody.Reading) { checkReading(t, got, body, size) })
		c := assert.NoError(net.Dial("tcp", theSite.plain))(t)
		t.Cleanup(func() { _ = c.Close() }) // all is read
		for _, form := range []string{fmt.Sprintf("Content-Length: %d\r\n\r\n", len(body)), "Transfer-Encoding: chunked\r\n\r\n"} {
			if size < len(body) && strings.HasPrefix(form, "Content") {
				continue // nothing of it is read
			}
			_, err := io.WriteString(c, "POST /digest HTTP/1.1\r\nHost: localhost\r\nX-First: "+first+"\r\n"+form)
			assert.Must(t, err)
			if strings.HasPrefix(form, "Content") {
				assert.NoError(c.Write(body))(t)
			} else {
				_, err := fmt.Fprintf(c, "%x\r\n%s\r\n0\r\n\r\n", len(body), body)
				assert.Must(t, err)
			}
			response := assert.NoError(http.ReadResponse(bufio.NewReader(c), nil))(t)
			got := assert.NoError(io.ReadAll(response.Body))(t)
			assert.Must(t, response.Body.Close())
			assert.ErrorIf(t, !strings.Contains(string(got), `"Read":500000,`), "%d: %s", response.StatusCode, got)
		}
		checkGivenBack(t, account)
	}
}
