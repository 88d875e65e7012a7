package requestbody_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/requestbody"
)

// timed is a writer of a server whose deadlines cost nothing.
type timed struct{ http.ResponseWriter }

func (timed) SetReadDeadline(time.Time) error { return nil }

// BenchmarkBody has a handler read a body of 1 KiB or 1 MiB that is there, with and without the reader before. The time
// of the server's deadlines is not in it.
func BenchmarkBody(b *testing.B) {
	for _, size := range []struct {
		name  string
		bytes int
	}{{"1KiB", 1 << 10}, {"1MiB", 1 << 20}} {
		body := textOf(size.bytes)
		for _, form := range []string{"plain", "length", "chunked"} {
			b.Run(size.name+"/"+form, func(b *testing.B) {
				account, into := requestbody.NewAccount(128<<20), make([]byte, size.bytes+1)
				original := &pieces{length: 32 << 10, end: io.EOF, beside: true}
				r, end := newRequest(original, int64(size.bytes))
				defer end()
				if form == "chunked" {
					r.ContentLength, original.beside = -1, false
				}
				w, bounds := timed{httptest.NewRecorder()}, requestbody.Bounds{Size: 2 << 20, Within: 10 * time.Second}
				b.ReportAllocs()
				b.SetBytes(int64(size.bytes))
				for b.Loop() {
					original.left, r.Body = body, original
					if form != "plain" {
						reading := account.Read(w, r, client, bounds)
						if len(reading.Bytes()) != size.bytes {
							b.Fatal(reading.Result())
						}
					}
					if n, _ := io.ReadFull(r.Body, into); n != size.bytes { // it ends
						b.Fatal(n)
					}
				}
			})
		}
	}
}

// BenchmarkServer sends bodies of 1 KiB to a Caddy, with and without the reader before a handler that reads them. The
// difference has the server's deadlines.
func BenchmarkServer(b *testing.B) {
	for _, version := range []string{"HTTP/1.1", "HTTP/2.0 cleartext"} {
		for _, form := range []string{"plain", "read"} {
			b.Run(version+"/"+form, func(b *testing.B) {
				account, bounds := requestbody.NewAccount(128<<20), requestbody.Bounds{Size: 2 << 20, Within: 10 * time.Second}
				name := register(b, func(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
					if form == "read" {
						account.Read(w, r, client, bounds)
					}
					var into [1025]byte
					_, _ = io.ReadFull(r.Body, into[:]) // it ends
					w.WriteHeader(http.StatusNoContent)
					return nil
				})
				body := bytes.NewReader(textOf(1 << 10))
				r := assert.NoError(http.NewRequestWithContext(b.Context(), http.MethodPost, theSite.url(version, "/digest"), http.NoBody))(b)
				r.ContentLength, r.Body, r.Header = 1<<10, io.NopCloser(body), http.Header{"X-First": {name}}
				b.ReportAllocs()
				for b.Loop() {
					_, _ = body.Seek(0, io.SeekStart) // it has no errors
					response := assert.NoError(theSite.clients[version].RoundTrip(r))(b)
					assert.Must(b, response.Body.Close())
				}
			})
		}
	}
}
