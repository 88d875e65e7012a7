package requests

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// sentBody is a body that a test sends, and how.
type sentBody struct {
	method, url, contentType string
	text                     string
	unannounced              bool // its length
	expects                  bool // 100 Continue
}

// send sends a body.
func (b sentBody) send(t *testing.T, speaker http.RoundTripper) (a caddytest.Response) {
	t.Helper()
	var body io.Reader = strings.NewReader(b.text)
	if b.unannounced {
		body = struct{ io.Reader }{body}
	}
	r := assert.NoError(http.NewRequestWithContext(t.Context(), b.method, b.url, body))(t)
	if b.contentType != "" {
		r.Header.Set("Content-Type", b.contentType)
	}
	if b.expects {
		r.Header.Set("Expect", "100-continue")
	}
	response := assert.NoError(speaker.RoundTrip(r))(t)
	defer response.Body.Close()
	return caddytest.Response{Status: response.StatusCode, Header: response.Header, Body: string(assert.NoError(io.ReadAll(response.Body))(t))}
}

// digester starts a backend that answers with the length that it was told, and with the digest of what it got.
func digester(t *testing.T) (address string) {
	t.Helper()
	return caddytest.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		digest := sha256.New()
		_, err := io.Copy(digest, r.Body)
		fmt.Fprintf(w, "%d %x %v", r.ContentLength, digest.Sum(nil), err)
	})
}

// jsonOfSize returns a document of JSON of a size. Below 26 bytes it is a number, and of no bytes none.
func jsonOfSize(size int) string {
	if size < 26 {
		return strings.Repeat("7", size)
	}
	return `{"user":"bob","padding":"` + strings.Repeat("x", size-len(`{"user":"bob","padding":""}`)) + `"}`
}

// TestBody_unchanged has backends get the bytes that clients send, with their length or without one, whether or not they
// are read for a value.
func TestBody_unchanged(t *testing.T) {
	t.Parallel()
	const size = 40_000
	n := startVersions(t, "", fmt.Sprintf(`redis_ratelimit /read {
		name accounts
		key {json.user}
		limit 1000000
		window 1h
		body %dB
	}
	reverse_proxy `+digester(t), size))
	clients := speakers(t)
	clients["HTTP/1.1"].(*http.Transport).ExpectContinueTimeout = time.Minute //nolint:forcetypeassert,errcheck // speakers has no other
	for version, client := range clients {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			ask(t, client, n.url(version)) // the certificate is issued
			for _, length := range []int{0, 1, size - 1, size, size + 1, 10 * size} {
				for _, form := range []sentBody{{}, {unannounced: true}, {expects: true}} {
					form.method, form.contentType, form.text = http.MethodPost, "application/json", jsonOfSize(length)
					if form.expects && version != "HTTP/1.1" {
						continue
					}
					form.url = n.url(version) + "/read"
					read := form.send(t, client)
					form.url = n.url(version) + "/plain"
					plain := form.send(t, client)
					assert.ErrorIf(t, read.Body != plain.Body || !strings.Contains(read.Body, fmt.Sprintf(" %x <nil>", sha256.Sum256([]byte(form.text)))) || !caddytest.HasQuota(read),
						"%d bytes, %+v: the backend got %v; want %v", length, form, read, plain)
				}
			}
		})
	}
}

// TestBody_none has requests without a body by each version, and with one of no type.
func TestBody_none(t *testing.T) {
	t.Parallel()
	n := startVersions(t, "", `redis_ratelimit /matched { name matched; match vars {json.method} call; limit 1000; window 1h }
	redis_ratelimit /skipped { name skipped; key {json.user}; on_empty_key skip; limit 1000; window 1h }
	reverse_proxy `+digester(t))
	for version, client := range speakers(t) {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			ask(t, client, n.url(version)) // the certificate is issued
			for _, path := range []string{"/matched", "/skipped"} {
				for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodDelete, http.MethodOptions} {
					for _, contentType := range []string{"", "application/json", "text/plain"} {
						b := sentBody{method: method, url: n.url(version) + path, contentType: contentType}
						want := http.StatusOK
						if method == http.MethodPost && contentType == "text/plain" && version == "HTTP/3.0" {
							want = http.StatusUnsupportedMediaType // there may be a body, which is not waited for
						}
						b.send(t, client).Want(t, want, caddytest.Any, caddytest.NoQuota)
					}
				}
				for _, length := range []int{1, 2, 3000} {
					b := sentBody{method: http.MethodPost, url: n.url(version) + path, text: strings.Repeat("x", length), unannounced: true}
					b.send(t, client).Want(t, http.StatusUnsupportedMediaType, caddytest.Any)
				}
			}
		})
	}
}

// TestBody_silent has calls of gRPC whose client waits for the answer's header before it sends a byte. Their bodies are not
// waited for.
func TestBody_silent(t *testing.T) {
	t.Parallel()
	backend := caddytest.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex() // HTTP/1.1 has it
		_ = http.NewResponseController(w).Flush()            // it can
		_, _ = io.Copy(w, r.Body)
	})
	n := startVersions(t, "", `redis_ratelimit { name calls; key {json.user}; limit 1000; window 1h; body 1KiB 1h }
	reverse_proxy `+backend+` { flush_interval -1 }`)
	for version, client := range speakers(t) {
		if version == "HTTP/1.1" {
			continue // no answer precedes its request's body
		}
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			ask(t, client, n.url(version)) // the certificate is issued
			for _, contentType := range []string{"application/grpc", "application/grpc+json", "application/connect+json"} {
				body, write := io.Pipe()
				r := assert.NoError(http.NewRequestWithContext(t.Context(), http.MethodPost, n.url(version), body))(t)
				r.Header.Set("Content-Type", contentType)
				response := assert.NoError(client.RoundTrip(r))(t)
				assert.NoError(io.WriteString(write, "hello"))(t)
				assert.Must(t, write.Close())
				assert.Equal(t, string(assert.NoError(io.ReadAll(response.Body))(t)), "hello", "the answer")
				_ = response.Body.Close() // it is read
			}
		})
	}
}

// rawConnection is a connection by HTTP/1.1 on which a test writes bytes.
type rawConnection struct {
	net.Conn
	answers *bufio.Reader
}

// connect opens a connection to a node, for the time of a test and at most a minute.
func connect(t *testing.T, n *caddytest.Node) *rawConnection {
	t.Helper()
	c := assert.NoError(net.Dial("tcp", strings.TrimPrefix(n.URL, "http://")))(t)
	t.Cleanup(func() { _ = c.Close() })
	assert.Must(t, c.SetDeadline(time.Now().Add(time.Minute)))
	return &rawConnection{c, bufio.NewReader(c)}
}

// post writes the head of a POST of JSON. Fields are lines.
func (c *rawConnection) post(t *testing.T, path string, fields ...string) {
	t.Helper()
	head := "POST " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" + strings.Join(fields, "\r\n") + "\r\n\r\n"
	assert.NoError(io.WriteString(c, head))(t)
}

// status reads the next answer, also one of 100, and returns its status.
func (c *rawConnection) status(t *testing.T) int {
	t.Helper()
	response := assert.NoError(http.ReadResponse(c.answers, nil))(t)
	_, err := io.Copy(io.Discard, response.Body)
	assert.Must(t, err)
	return response.StatusCode
}

// TestBody_unasked has clients wait for 100 Continue, which they get only if their body decides.
func TestBody_unasked(t *testing.T) {
	n, _ := caddytest.OnRedis(t, "timeout 10s", `redis_ratelimit /first {query.k} 1 24h { name first }
	redis_ratelimit /first { name second; key {json.user}; limit 1000; window 1h }
	redis_ratelimit /remembered {
		policy by-query { key {query.k}; limit 1; window 24h }
		policy by-body { key {json.user}; limit 1000; window 1h }
	}
	redis_ratelimit /blocked {
		policy blocked { key {query.k}; limit 1000; window 1h }
		policy of-body { key {json.user}; limit 1000; window 1h }
	}
	redis_ratelimit /exempt { name exempt; key {json.user}; limit 1; window 24h; exempt private_ranges }
	redis_ratelimit /elsewhere { name elsewhere; match { path /other; vars {json.user} bob }; limit 1; window 24h }
	redis_ratelimit /large { name large; key {json.user}; limit 1; window 24h; on_empty_key reject }
	redis_ratelimit /typed { name typed; key {form.user}; limit 1; window 24h; on_empty_key reject }
	redis_ratelimit /asked { name asked; key {json.user}; limit 1000; window 1h }
	@unread path /exempt /elsewhere
	header @unread Connection close # for which net/http does not wait for the body
	respond ok`)
	n.Override(t, http.StatusOK, `{"policy":"blocked","key":"k","block":true}`)
	body := `{"user":"bob"}`
	for _, path := range []string{"/first", "/remembered"} {
		n.Send(t, http.MethodPost, n.URL+path+"?k=k", body, ofJSON)
	}
	n.Await(t, "/blocked?k=k", http.StatusTooManyRequests, caddytest.Any)
	for _, test := range []struct {
		path   string
		length int
		want   int
	}{
		{"/first?k=k", 14, 429}, {"/remembered?k=k", 14, 429}, {"/blocked?k=k", 14, 429}, {"/exempt", 14, 200}, {"/elsewhere", 14, 200},
		{"/large", 1<<20 + 1, 413}, {"/typed", 14, 415},
		{"/first?k=other", 14, 100}, {"/remembered?k=other", 14, 100}, {"/blocked?k=other", 14, 100}, {"/asked", 14, 100},
	} {
		var c *rawConnection
		var status int
		ask := func() (again bool, seen any) {
			if test.path == "/remembered?k=k" { // a denial is remembered for a second
				n.Send(t, http.MethodPost, n.URL+test.path, body, ofJSON)
			}
			c = connect(t, n)
			c.post(t, test.path, "Expect: 100-continue", "Content-Length: "+strconv.Itoa(test.length))
			status = c.status(t)
			return status != test.want, status
		}
		if test.path == "/remembered?k=k" {
			assert.Retry(t, "the denial is remembered", ask)
		} else if again, _ := ask(); again {
			t.Errorf("%s: the first answer has status %d, want %d", test.path, status, test.want)
		}
		if status == http.StatusContinue {
			assert.NoError(io.WriteString(c, body))(t)
			assert.ErrorIf(t, c.status(t) != http.StatusOK, "%s: the request is refused", test.path)
		}
	}
}

// TestBody_pipelined sends requests behind a body on one connection, whether the body was read for a value, or refused.
func TestBody_pipelined(t *testing.T) {
	n := caddytest.InProcess(t, `redis_ratelimit /read { name read; key {json.user}; limit 1000; window 1h; on_empty_key reject }
	respond ok`)
	c := connect(t, n)
	var sent bytes.Buffer
	for _, body := range []string{`{"user":"bob"}`, `{"user":`, `{"user":"eve"}`} {
		fmt.Fprintf(&sent, "POST /read HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	}
	assert.NoError(c.Write(sent.Bytes()))(t)
	for _, want := range []int{200, 400, 200} {
		assert.Equal(t, c.status(t), want, "the status")
	}
}
