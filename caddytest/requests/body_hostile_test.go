package requests

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// countedBackend counts its calls: none is to come whose body has not arrived as a whole.
type countedBackend struct {
	address string
	calls   atomic.Int64
}

func newCountedBackend(t *testing.T) *countedBackend {
	t.Helper()
	b := new(countedBackend)
	b.address = caddytest.Serve(t, func(http.ResponseWriter, *http.Request) { b.calls.Add(1) })
	return b
}

// site has a key, a number and a matcher of the body, and little time and room for it.
func (b *countedBackend) site() string {
	return `redis_ratelimit /key { name key; key {json.user}; limit 1000000; window 1h; on_empty_key skip }
	redis_ratelimit /raw { name raw; key {json.user}; limit 1000000; window 1h; on_empty_key reject; raw_key }
	redis_ratelimit /number { name number; key {query.k}; limit {json.limit} 1000000; window 1h }
	redis_ratelimit /match { name match; limit 1000000; window 1h; match vars {json.user} bob; on_unread pass }
	redis_ratelimit /dry { name dry; key {json.user}; limit 1000000; window 1h; dry_run }
	redis_ratelimit /slow { name slow; key {json.user}; limit 1000000; window 1h; body 1KiB 50ms }
	redis_ratelimit /form { name form; key {form.user}; limit 1000000; window 1h; on_empty_key reject }
	reverse_proxy ` + b.address
}

// TestBody_cut has clients send a part of a body, and close their side of the connection, all of it, or break the framing.
// No backend is called, and nothing is kept of them.
func TestBody_cut(t *testing.T) {
	backend := newCountedBackend(t)
	n := caddytest.InProcess(t, backend.site())
	idle := n.Goroutines(t)
	chunked := "Transfer-Encoding: chunked"
	for _, path := range []string{"/key", "/number", "/match", "/dry"} {
		for _, test := range []struct{ what, field, sent string }{
			{"a length", "Content-Length: 20", `{"user":"bob"}`},
			{"no byte", "Content-Length: 20", ""},
			{"a chunk", chunked, "e\r\n" + `{"user":"bob"}` + "\r\n"},
			{"a part of a chunk", chunked, "ff\r\n" + `{"user":"bob"}`},
			{"no chunk length", chunked, "{\r\n"},
			{"a chunk longer than told", chunked, "3\r\n" + `{"user":"bob"}` + "\r\n0\r\n\r\n"},
			{"a huge chunk", chunked, "fffffffffffffffff\r\n" + `{"user":"bob"}`},
		} {
			c := connect(t, n)
			c.post(t, path, test.field)
			assert.NoError(io.WriteString(c, test.sent))(t)
			assert.Must(t, c.Conn.(*net.TCPConn).CloseWrite()) //nolint:forcetypeassert,errcheck // it is one of TCP
			assert.Equal(t, c.status(t), http.StatusBadRequest, "the status of %s at %s", test.what, path)
			left := connect(t, n)
			left.post(t, path, test.field)
			assert.NoError(io.WriteString(left, test.sent))(t)
			assert.Must(t, left.Close())
		}
	}
	assert.ErrorIf(t, backend.calls.Load() > 0, "the backend was called for %d bodies that had not arrived", backend.calls.Load())
	c := connect(t, n)
	c.post(t, "/slow", "Content-Length: 20")
	assert.NoError(io.WriteString(c, `{"user":"bob"}`))(t)
	assert.Equal(t, c.status(t), http.StatusRequestTimeout, "the status of a body that does not arrive in time")
	c = connect(t, n)
	c.post(t, "/slow", chunked)
	assert.Equal(t, c.status(t), http.StatusRequestTimeout, "the status of a body of which nothing arrives in time")
	assert.ErrorIf(t, backend.calls.Load() > 0, "the backend was called for a slow body")
	checkNothingKept(t, n, idle)
}

// TestBody_lateBehind has a limit behind another one refuse bodies that are late or fail. The one in front counts no such
// refusal as an outcome of a log-in, by any version.
func TestBody_lateBehind(t *testing.T) {
	n := caddytest.InProcess(t, `route {
	redis_ratelimit { name outcomes; key {query.k}; limit 10; window 24h; count_if status 401 }
	redis_ratelimit /late { name late; key {json.user}; limit 1000; window 1h; body 1KiB 50ms; on_empty_key reject }
	redis_ratelimit /cut { name cut; key {json.user}; limit 1000; window 1h; body 1KiB 1m; on_empty_key reject }
	redis_ratelimit /call { name call; key {query.k}; limit 1; window 24h; answer jsonrpc }
	respond 401
	}`)
	for _, test := range []struct {
		path, body string
		want       int
		left       int64
	}{
		{"/late", `{"user":"bob"}`, http.StatusRequestTimeout, 10},
		{"/call", `{"jsonrpc":"2.0","id":1,"method":"m"}`, http.StatusTooManyRequests, 9},
	} {
		key := test.path[1:]
		if test.path == "/call" {
			n.Get(t, test.path+"?k="+key).Want(t, http.StatusUnauthorized, caddytest.Any)
		}
		c := connect(t, n)
		c.post(t, test.path+"?k="+key, "Content-Length: "+strconv.Itoa(len(test.body)))
		assert.NoError(io.WriteString(c, test.body[:10]))(t)
		assert.Equal(t, c.status(t), test.want, "the status of a late body at %s", test.path)
		n.WaitForRefund(t, "outcomes", key, test.left)
	}
	c := connect(t, n)
	c.post(t, "/cut?k=cut", "Content-Length: 20")
	assert.NoError(io.WriteString(c, `{"user"`))(t)
	assert.Must(t, c.Conn.(*net.TCPConn).CloseWrite()) //nolint:forcetypeassert,errcheck // it is one of TCP
	assert.Equal(t, c.status(t), http.StatusBadRequest, "the status of a body that is cut")
	n.WaitForRefund(t, "outcomes", "cut", 10)
}

// checkNothingKept waits until a node holds no bodies, and has no more goroutines than when it was idle.
func checkNothingKept(t *testing.T, n *caddytest.Node, idle int) {
	t.Helper()
	n.CheckMetric(t, "body_bytes", 0)
	assert.Retry(t, "the requests have ended", func() (again bool, seen any) {
		now := n.Goroutines(t)
		return now > idle+5, fmt.Sprintf("%d goroutines, %d when idle", now, idle)
	})
}

// beginToLeave sends a request whose client leaves within the body, and returns why the request has no answer. A server may
// notice the end of a body before that of its client: over TLS the client tells an end first, and may still read a 400.
func beginToLeave(client http.RoundTripper, r *http.Request) <-chan error {
	left := make(chan error, 1)
	go func() {
		response, err := client.RoundTrip(r)
		if err == nil {
			_ = response.Body.Close()
			if response.StatusCode == http.StatusBadRequest {
				err = errors.New(response.Status)
			}
		}
		left <- err
	}()
	return left
}

// TestBody_left has clients of each version leave within a body.
func TestBody_left(t *testing.T) {
	t.Parallel()
	backend := newCountedBackend(t)
	n := startVersions(t, "", backend.site())
	clients := speakers(t)
	for version, client := range clients {
		ask(t, client, n.url(version)+"/none") // the certificate is issued
	}
	idle, called := n.Goroutines(t), backend.calls.Load()
	for version, client := range clients {
		for _, path := range []string{"/key", "/number", "/match", "/dry"} {
			reading, writing := io.Pipe()
			ctx, leave := context.WithCancel(t.Context())
			r := assert.NoError(http.NewRequestWithContext(ctx, http.MethodPost, n.url(version)+path, reading))(t)
			r.Header.Set("Content-Type", "application/json")
			left := beginToLeave(client, r)
			assert.NoError(io.WriteString(writing, `{"user":"bob"`))(t)
			assert.Retry(t, "the body is read", func() (again bool, seen any) { return n.Metric(t, "body_bytes") == 0, "it is not" })
			leave()
			_ = writing.CloseWithError(ctx.Err()) // for which the client of HTTP/1.1 waits
			assert.ErrorIf(t, <-left == nil, "%s: a request is answered without its body", version)
			n.CheckMetric(t, "body_bytes", 0)
		}
	}
	assert.Equal(t, backend.calls.Load(), called, "the number of requests that have reached the backend")
	checkNothingKept(t, n.Node, idle)
}

// TestBody_shapes sends bodies at the bounds of what is read, and values as large as a body.
func TestBody_shapes(t *testing.T) {
	backend := newCountedBackend(t)
	n := caddytest.InProcess(t, backend.site())
	parts := func(count int) string {
		return strings.Repeat("--AaB03x\r\nContent-Disposition: form-data; name=\"x\"\r\n\r\ny\r\n", count-1) +
			"--AaB03x\r\nContent-Disposition: form-data; name=\"user\"\r\n\r\nbob\r\n--AaB03x--\r\n"
	}
	deep := func(levels int) string {
		return `{"user":"bob","deep":` + strings.Repeat("[", levels-1) + strings.Repeat("]", levels-1) + "}"
	}
	rest := func(size int, head, tail, unit string) string {
		return head + strings.Repeat(unit, (size-len(head)-len(tail))/len(unit)) + tail
	}
	const size, multipart = 1 << 20, "Content-Type: multipart/form-data; boundary=AaB03x"
	for _, test := range []struct {
		what, path, kind, text string
		status                 int
	}{
		{"a thousand parts", "/form", multipart, parts(1000), 200},
		{"a part more", "/form", multipart, parts(1001), 400},
		{"fifteen thousand parts", "/form", multipart, parts(15000), 400},
		{"512 levels", "/key", ofJSON, deep(512), 200},
		{"a level more", "/key", ofJSON, deep(513), 400},
		{"half a million levels", "/key", ofJSON, rest(size, `{"user":"bob","deep":`, "", "["), 400},
		{"a long key", "/key", ofJSON, rest(size, `{"user":"`, `"}`, "b"), 400},
		{"a long key of capitals", "/key", ofJSON, rest(size, `{"user":"`, `"}`, "B"), 400},
		{"a long key of marks", "/key", ofJSON, rest(size, `{"user":"b`, `"}`, "\u0301"), 400},
		{"a long key of what grows", "/key", ofJSON, rest(size, `{"user":"`, `"}`, "\ufdfa"), 400},
		{"a long key of escapes", "/key", ofJSON, rest(size, `{"user":"`, `"}`, `\u0062`), 400},
		{"a long key of braces", "/key", ofJSON, rest(size, `{"user":"`, `"}`, `%{}`), 400},
		{"a long key of blanks", "/key", ofJSON, rest(size, `{"user":"`, `"}`, " "), 400},
		{"a long field of a form", "/form", ofForm, rest(size, "user=", "", "b"), 400},
		{"a long field of escapes", "/form", ofForm, rest(size, "user=", "", "%62"), 400},
		{"many fields", "/form", ofForm, rest(size, "user=bob", "", "&a=b"), 200},
		{"many fields alike", "/form", ofForm, rest(size, "user=bob", "", "&user_=b"), 400},
		{"fields without a name", "/form", ofForm, rest(size, "user=bob", "", "&"), 200},
		{"many members", "/key", ofJSON, rest(size-1, `{"user":"bob"`, "}", `,"users":1`), 200},
		{"many members alike", "/key", ofJSON, rest(size-1, `{"user":"bob"`, "}", `,"user_":1`), 400},
		{"a key of 64 KiB", "/key", ofJSON, rest(64<<10+len(`{"user":""}`), `{"user":"`, `"}`, "B"), 200},
		{"a byte more", "/key", ofJSON, rest(64<<10+len(`{"user":""}`)+1, `{"user":"`, `"}`, "B"), 400},
		{"a long key as it is", "/raw", ofJSON, rest(size, `{"user":"`, `"}`, "b"), 200},
		{"a long key as it is, of braces", "/raw", ofJSON, rest(size, `{"user":"`, `"}`, `%{}`), 200},
		{"a long number", "/number?k=a", ofJSON, rest(size, `{"limit":`, "}", "9"), 200},
		{"a long name", "/key", ofJSON, rest(size, `{"user":"bob","`, `":1}`, "n"), 200},
		{"a long query", "/key?" + strings.Repeat("&x[]=1", 2000), ofJSON, `{"user":"bob"}`, 200},
		{"a long type", "/key", ofJSON + ";" + strings.Repeat(" a=b;", 2000), `{"user":"bob"}`, 200},
	} {
		a := n.Send(t, http.MethodPost, n.URL+test.path, test.text, test.kind)
		assert.ErrorIf(t, a.Status != test.status, "%s: the status is %d, want %d: %.300s", test.what, a.Status, test.status, a.Body)
	}
	n.CheckMetric(t, "body_bytes", 0)
}

// TestBody_noRoom has a connection hold all that a process may hold of one address. Another body is refused until the
// connection ends; requests without one pass.
func TestBody_noRoom(t *testing.T) {
	t.Parallel()
	const share = 128 << 10
	backend := newCountedBackend(t)
	n := caddytest.Start(t, caddytest.Config("redis_ratelimit {\nmemory {\nmax_bodies 1MiB\n}\n}",
		fmt.Sprintf("redis_ratelimit /held { name held; key {json.user}; limit 1000000; window 1h; body %dB 1h }\n", share)+backend.site()))
	c := connect(t, n)
	c.post(t, "/held", fmt.Sprint("Content-Length: ", share))
	assert.NoError(io.WriteString(c, `{"user":"`+strings.Repeat("b", share-100)))(t)
	assert.Retry(t, "the part is held", func() (again bool, seen any) {
		held := n.Metric(t, "body_bytes")
		return held < share, held
	})
	for path, status := range map[string]int{"/key": 503, "/number?k=a": 503, "/match": 503, "/dry": 200, "/none": 200} {
		a := n.Send(t, http.MethodPost, n.URL+path, `{"user":"bob","limit":5}`, ofJSON)
		a.Want(t, status, caddytest.Any)
		assert.ErrorIf(t, status == 503 && (a.Header.Get("Retry-After") != "1" || a.Header.Get("Cache-Control") != "no-store"), "got %v; want to come again in a second", a)
		n.Get(t, path).Want(t, http.StatusOK, caddytest.Any)
	}
	n.CheckMetric(t, `invalid_values_total{option="match",policy="match",reason="no_room"}`, 1)
	n.CheckMetric(t, `invalid_values_total{option="key",policy="key",reason="no_room"}`, 1)
	n.CheckMetric(t, `invalid_values_total{option="limit",policy="number",reason="no_room"}`, 1)
	for _, line := range n.Log.Lines(func(l caddytest.LogLine) bool { return l.Level == "warn" && caddytest.Ours(l) }) {
		assert.ErrorIf(t, strings.Contains(line.Message, "fallback"), "the log says %q of a request that got 503", line.Message)
	}
	assert.ErrorIf(t, !n.Log.Has("no room to read a request's body, which gets 503; a client may hold an eighth of max_bodies"), "the log says nothing of the room")
	assert.Must(t, c.Close())
	n.CheckMetric(t, "body_bytes", 0)
	n.Send(t, http.MethodPost, n.URL+"/key", `{"user":"eve"}`, ofJSON).Want(t, http.StatusOK, caddytest.Any)
}
