package requestbody_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/requestbody"
)

const (
	room   = 64 << 20 // of accounts in tests that do not mean to fill them
	client = "192.0.2.1"
)

// wide are bounds that no test meets by time.
func wide(size int) requestbody.Bounds { return requestbody.Bounds{Size: size, Within: time.Minute} }

// reader has hooks read bodies, and gives what was read to a check that runs before the handlers behind.
func reader(t testing.TB, a *requestbody.Account, bounds requestbody.Bounds, check func(requestbody.Reading)) (name string) {
	return register(t, func(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
		reading := a.Read(w, r, client, bounds)
		check(reading)
		if status := reading.Result().Status(); status != 0 && r.Header.Get("X-Refuse") != "" {
			return caddyhttp.Error(status, errors.New("refused"))
		}
		return next.ServeHTTP(w, r)
	})
}

// checkReading checks what was read of a body by bounds.
func checkReading(t testing.TB, got requestbody.Reading, body []byte, size int) {
	t.Helper()
	want := requestbody.Whole
	switch {
	case len(body) == 0:
		want = requestbody.Absent
	case len(body) > size:
		want = requestbody.TooLarge
	}
	assert.Equal(t, got.Result(), want, "the result for %d of %d bytes", len(body), size)
	if want == requestbody.Whole {
		assert.ErrorIf(t, !bytes.Equal(got.Bytes(), body), "%d bytes were read that differ", len(got.Bytes()))
	} else {
		assert.ErrorIf(t, got.Bytes() != nil, "%d bytes were read", len(got.Bytes()))
	}
	assert.Must(t, got.Err())
}

// checkGivenBack waits until an account holds nothing. Requests end a moment after their answers.
func checkGivenBack(t testing.TB, a *requestbody.Account) {
	t.Helper()
	assert.Retry(t, "the account has everything back", func() (again bool, seen any) { return a.Held() != 0, a.Held() })
}

// TestRead_sizes sends bodies around the size, with and without a length, by each version.
func TestRead_sizes(t *testing.T) {
	const size = 3000
	for _, version := range versions {
		for _, length := range []int{0, 1, size - 1, size, size + 1, 10 * size, 100 * size} {
			for _, form := range []string{"length", "chunked", "continue", "trailer"} {
				if form == "continue" && version == "HTTP/3.0" { // its client does not know it
					continue
				}
				t.Run(fmt.Sprintf("%s/%d/%s", version, length, form), func(t *testing.T) {
					body, account := textOf(length), requestbody.NewAccount(room)
					check := func(got requestbody.Reading) { checkReading(t, got, body, size) }
					first := reader(t, account, wide(size), check)
					q := request{version: version, url: theSite.url(version, "/digest"), body: body, chunked: form == "chunked" || form == "trailer",
						trailer: form == "trailer", header: http.Header{"X-First": {first}, "X-Second": {first}}}
					if form == "continue" {
						q.header.Set("Expect", "100-continue")
					}
					q.checkUnchanged(t, body)
					checkGivenBack(t, account)
				})
			}
		}
	}
}

// TestRead_proxy has Caddy's proxy send what was read: with the same framing and trailers, to the second backend if the
// first one is not there, and from a buffer of the proxy's.
func TestRead_proxy(t *testing.T) {
	for _, path := range []string{"/proxy", "/retries", "/buffered"} {
		for _, version := range versions {
			for _, size := range []int{2000, 200} {
				for _, chunked := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s/%s/%d/%v", path, version, size, chunked), func(t *testing.T) {
						body, account := textOf(1000), requestbody.NewAccount(room)
						first := reader(t, account, wide(size), func(got requestbody.Reading) { checkReading(t, got, body, size) })
						q := request{version: version, url: theSite.url(version, path), body: body, chunked: chunked, trailer: chunked,
							header: http.Header{"X-First": {first}}}
						q.checkUnchanged(t, body)
						assert.ErrorIf(t, !q.ask(t).Proxied, "an error route has answered, and no backend")
						checkGivenBack(t, account)
					})
				}
			}
		}
	}
}

// TestRead_none has requests whose bodies are not read.
func TestRead_none(t *testing.T) {
	body := textOf(50)
	for name, test := range map[string]struct {
		header http.Header
		size   int
		want   requestbody.ReadResult
	}{
		"upgrade":          {http.Header{"Connection": {"keep-alive, Upgrade"}, "Upgrade": {"other"}}, 100, requestbody.Streamed},
		"no upgrade":       {http.Header{"Upgrade": {"other"}}, 100, requestbody.Whole},
		"incremental":      {http.Header{"Incremental": {"?1"}}, 100, requestbody.Streamed},
		"not incremental":  {http.Header{"Incremental": {"?0"}}, 100, requestbody.Whole},
		"no boolean":       {http.Header{"Incremental": {"1"}}, 100, requestbody.Whole},
		"announced larger": {http.Header{}, 49, requestbody.TooLarge},
		"no size":          {http.Header{}, 0, requestbody.TooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			account := requestbody.NewAccount(room)
			test.header.Set("X-First", register(t, func(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
				before := r.Body
				reading := account.Read(w, r, client, wide(test.size))
				assert.Equal(t, reading.Result(), test.want, "the result")
				assert.ErrorIf(t, test.want != requestbody.Whole && (r.Body != before || account.Held() != 0), "the body was touched")
				return next.ServeHTTP(w, r)
			}))
			q := request{version: "HTTP/1.1", url: theSite.url("HTTP/1.1", "/digest"), body: body, header: test.header}
			q.checkUnchanged(t, body)
		})
	}
}

// TestRead_again has a second handler read the body by other bounds, with another handler's reader around the body and
// another body in the request between.
func TestRead_again(t *testing.T) {
	body, other := textOf(3000), []byte("other")
	for _, test := range []struct {
		path          string
		first, second int
		want          []byte
	}{
		{"/digest", 3000, 3000, body},
		{"/digest", 1000, 3000, body}, // goes on where the first one ended
		{"/digest", 3000, 1000, body},
		{"/digest", 10, 20, body},
		{"/between", 3000, 3000, body},
		{"/between", 100, 3000, body},
		{"/set", 3000, 3000, other},
		{"/set", 1000, 5, other},
	} {
		for _, chunked := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/%d/%d/%v", test.path, test.first, test.second, chunked), func(t *testing.T) {
				account := requestbody.NewAccount(room)
				first := reader(t, account, wide(test.first), func(got requestbody.Reading) { checkReading(t, got, body, test.first) })
				second := reader(t, account, wide(test.second), func(got requestbody.Reading) { checkReading(t, got, test.want, test.second) })
				q := request{version: "HTTP/1.1", url: theSite.url("HTTP/1.1", test.path), body: body, chunked: chunked,
					header: http.Header{"X-First": {first}, "X-Second": {second}}}
				q.checkUnchanged(t, test.want)
				checkGivenBack(t, account)
			})
		}
	}
}

// TestRead_taken has a second handler get the bytes of the first one without a read or a copy.
func TestRead_taken(t *testing.T) {
	account := requestbody.NewAccount(room)
	var bodies [][]byte
	name := reader(t, account, wide(100), func(got requestbody.Reading) { bodies = append(bodies, got.Bytes()) })
	q := request{version: "HTTP/1.1", url: theSite.url("HTTP/1.1", "/digest"), body: []byte("bytes"),
		header: http.Header{"X-First": {name}, "X-Second": {name}}}
	q.checkUnchanged(t, q.body)
	assert.FatalIf(t, len(bodies) != 2 || len(bodies[1]) != 5, "got %q", bodies)
	assert.ErrorIf(t, &bodies[0][0] != &bodies[1][0], "the second handler has a copy")
}

// TestRead_placeholder has Caddy's placeholder of the body read it.
func TestRead_placeholder(t *testing.T) {
	for _, size := range []int{100, 3} {
		account := requestbody.NewAccount(room)
		first := reader(t, account, wide(size), func(got requestbody.Reading) { checkReading(t, got, []byte("bytes"), size) })
		q := request{version: "HTTP/1.1", url: theSite.url("HTTP/1.1", "/placeholder"), body: []byte("bytes"), chunked: true,
			header: http.Header{"X-First": {first}}}
		status, body, err := q.do(t.Context())
		assert.Must(t, err)
		assert.Equal(t, body, "bytes", "the body of %d", status)
		checkGivenBack(t, account)
	}
}

// TestRead_limited has request_body in front, whose error of 413 a handler behind gets as well.
func TestRead_limited(t *testing.T) {
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			account := requestbody.NewAccount(room)
			first := reader(t, account, wide(1000), func(got requestbody.Reading) {
				var failure caddyhttp.HandlerError
				assert.Equal(t, got.Result(), requestbody.Failed, "the result")
				isTooLarge := errors.As(got.Err(), &failure) && failure.StatusCode == http.StatusRequestEntityTooLarge
				assert.ErrorIf(t, !isTooLarge, "the error is %v", got.Err())
			})
			q := request{version: version, url: theSite.url(version, "/limited"), body: textOf(500), chunked: true,
				header: http.Header{"X-First": {first}}}
			status, body, err := q.do(t.Context())
			assert.Must(t, err)
			failed := strings.Contains(body, "http: request body too large")
			assert.ErrorIf(t, !strings.Contains(body, `"Read":100,`) || !failed, "%d: the handler behind sees %s", status, body)
			checkGivenBack(t, account)
		})
	}
}

// TestRead_errorRoutes has error routes read what a handler has refused, which stays on the account until then.
func TestRead_errorRoutes(t *testing.T) {
	for _, version := range versions {
		for _, size := range []int{3000, 100} {
			t.Run(fmt.Sprintf("%s/%d", version, size), func(t *testing.T) {
				body, account := textOf(3000), requestbody.NewAccount(room)
				first := register(t, func(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
					reading := account.Read(w, r, client, wide(size))
					checkReading(t, reading, body, size)
					return caddyhttp.Error(http.StatusTooManyRequests, errors.New("refused"))
				})
				again := reader(t, account, wide(3000), func(got requestbody.Reading) {
					checkReading(t, got, body, 3000)
					assert.ErrorIf(t, account.Held() < 3000, "the account has %d bytes", account.Held())
				})
				q := request{version: version, url: theSite.url(version, "/digest"), body: body, chunked: true,
					header: http.Header{"X-First": {first}, "X-Error": {again}}}
				digest := sha256.Sum256(body)
				assert.Equal(t, q.ask(t).Digest, hex.EncodeToString(digest[:]), "the digest in the error route")
				checkGivenBack(t, account)
			})
		}
	}
}

// TestRead_unread has no handler read what was read: it is given back when the request ends.
func TestRead_unread(t *testing.T) {
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			body, account := textOf(3000), requestbody.NewAccount(room)
			ended := make(chan int64, 1)
			first := register(t, func(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
				account.Read(w, r, client, wide(3000))
				ended <- account.Held()
				w.WriteHeader(http.StatusNoContent)
				return nil
			})
			q := request{version: version, url: theSite.url(version, "/digest"), body: body, header: http.Header{"X-First": {first}}}
			status, _, err := q.do(t.Context())
			assert.Must(t, err)
			assert.Equal(t, status, http.StatusNoContent, "the status")
			assert.ErrorIf(t, <-ended < 3000, "the bytes were given back before the request had ended")
			checkGivenBack(t, account)
		})
	}
}

// TestRead_clientLeaves has a client leave within its body, or break its framing.
func TestRead_clientLeaves(t *testing.T) {
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			account := requestbody.NewAccount(room)
			results := make(chan requestbody.Reading, 1)
			first := reader(t, account, wide(1000), func(got requestbody.Reading) { results <- got })
			reading, writing := io.Pipe()
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			var sender sync.WaitGroup
			sender.Go(func() {
				q := request{version: version, url: theSite.url(version, "/digest"), body: make([]byte, 1000), stream: reading,
					header: http.Header{"X-First": {first}}}
				_, _, _ = q.do(ctx) // the client may see the answer before its own end
			})
			assert.NoError(writing.Write(textOf(500)))(t)
			assert.Retry(t, "the body's beginning is read", func() (again bool, seen any) { return account.Held() == 0, account.Held() })
			leave()
			assert.Must(t, writing.CloseWithError(io.ErrClosedPipe)) // the client of HTTP/1.1 waits for its body
			got := <-results
			assert.ErrorIf(t, got.Result() != requestbody.Failed || got.Err() == nil, "got %v, %v", got.Result(), got.Err())
			sender.Wait()
			checkGivenBack(t, account)
		})
	}
}

// TestRead_clientHalfCloses has a client close its side behind a whole body, which ends the request's context. A handler
// that goes on nevertheless gets an error, and no shorter body.
func TestRead_clientHalfCloses(t *testing.T) {
	account, body := requestbody.NewAccount(room), textOf(500)
	first := register(t, func(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
		checkReading(t, account.Read(w, r, client, wide(1000)), body, 1000)
		<-r.Context().Done()
		checkGivenBack(t, account)
		return next.ServeHTTP(w, r)
	})
	c := assert.NoError(net.Dial("tcp", theSite.plain))(t)
	defer c.Close() //nolint:errcheck // all is read
	_, err := fmt.Fprintf(c, "POST /digest HTTP/1.1\r\nHost: localhost\r\nX-First: %s\r\nContent-Length: %d\r\n\r\n%s", first, len(body), body)
	assert.Must(t, err)
	assert.Must(t, c.(*net.TCPConn).CloseWrite()) //nolint:forcetypeassert,errcheck // as dialed
	response := assert.NoError(http.ReadResponse(bufio.NewReader(c), nil))(t)
	got := assert.NoError(io.ReadAll(response.Body))(t)
	assert.Must(t, response.Body.Close())
	failed := strings.Contains(string(got), `"Failure":"http: invalid Read on closed Body"`)
	assert.ErrorIf(t, !failed, "the handler behind sees %s", got)
}

// TestRead_brokenFraming has a client send a chunk without a length. What handlers behind get is the beginning and an error.
func TestRead_brokenFraming(t *testing.T) {
	account := requestbody.NewAccount(room)
	first := reader(t, account, wide(1000), func(got requestbody.Reading) {
		assert.ErrorIf(t, got.Result() != requestbody.Failed || got.Err() == nil, "got %v, %v", got.Result(), got.Err())
	})
	c := assert.NoError(net.Dial("tcp", theSite.plain))(t)
	defer c.Close() //nolint:errcheck // all is read
	head := "POST /digest HTTP/1.1\r\nHost: localhost\r\nX-First: " + first + "\r\nTransfer-Encoding: chunked\r\n\r\n"
	_, err := io.WriteString(c, head+"5\r\nbegin\r\nlength\r\n")
	assert.Must(t, err)
	response := assert.NoError(http.ReadResponse(bufio.NewReader(c), nil))(t)
	got := assert.NoError(io.ReadAll(response.Body))(t)
	assert.Must(t, response.Body.Close())
	failed := !strings.Contains(string(got), `"Failure":""`)
	assert.ErrorIf(t, !strings.Contains(string(got), `"Read":5,`) || !failed, "the handler behind sees %s", got)
	checkGivenBack(t, account)
}

// TestRead_trailers has a client send a field behind its body that no trailers may have. A proxy sends the others.
func TestRead_trailers(t *testing.T) {
	account := requestbody.NewAccount(room)
	first := reader(t, account, wide(1000), func(got requestbody.Reading) { checkReading(t, got, []byte("begin"), 1000) })
	c := assert.NoError(net.Dial("tcp", theSite.plain))(t)
	defer c.Close() //nolint:errcheck // all is read
	head := "POST /proxy HTTP/1.1\r\nHost: localhost\r\nX-First: " + first + "\r\nTransfer-Encoding: chunked\r\nTrailer: X-End\r\n\r\n"
	_, err := io.WriteString(c, head+"5\r\nbegin\r\n0\r\nX-End: reached\r\nTrailer: X-Other\r\n\r\n")
	assert.Must(t, err)
	response := assert.NoError(http.ReadResponse(bufio.NewReader(c), nil))(t)
	got := assert.NoError(io.ReadAll(response.Body))(t)
	assert.Must(t, response.Body.Close())
	assert.ErrorIf(t, !strings.Contains(string(got), `"Read":5,"Trailer":"reached","Failure":"","Proxied":true`), "seen is %s", got)
	checkGivenBack(t, account)
}

// TestRead_heads has requests whose heads say that there is no body to read, whatever a handler's reader says.
func TestRead_heads(t *testing.T) {
	for name, test := range map[string]struct {
		method string
		body   io.ReadCloser
		length int64
		want   requestbody.ReadResult
	}{
		"no reader":             {http.MethodPost, nil, -1, requestbody.Absent},
		"no body":               {http.MethodPost, http.NoBody, -1, requestbody.Absent},
		"a length of 0":         {http.MethodGet, &pieces{end: io.EOF}, 0, requestbody.Absent},
		"no bytes":              {http.MethodGet, &pieces{end: io.EOF}, -1, requestbody.Absent},
		"connect":               {http.MethodConnect, &pieces{left: textOf(5), length: 5, end: io.EOF}, -1, requestbody.Streamed},
		"get":                   {http.MethodGet, &pieces{left: textOf(5), length: 5, end: io.EOF}, 5, requestbody.Whole},
		"more than is promised": {http.MethodPost, &pieces{left: textOf(50), length: 5, end: io.EOF}, 5, requestbody.Whole},
	} {
		t.Run(name, func(t *testing.T) {
			account := requestbody.NewAccount(room)
			r, end := newRequest(test.body, test.length)
			defer end()
			r.Method = test.method
			got := account.Read(httptest.NewRecorder(), r, client, wide(100))
			assert.Equal(t, got.Result(), test.want, "the result")
			end()
			checkGivenBack(t, account)
		})
	}
}
