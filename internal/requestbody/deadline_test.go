package requestbody_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/requestbody"
)

// hidden is a writer that hides the server's.
type hidden struct{ http.ResponseWriter }

// upload is a request whose body a test sends by and by.
type upload struct {
	*io.PipeWriter
	answered chan error
	status   int
	body     string
}

// startUpload sends the head of a request with an announced body, or without a length if that is -1.
func startUpload(ctx context.Context, version, url string, length int, header http.Header) *upload {
	reading, writing := io.Pipe()
	u := &upload{PipeWriter: writing, answered: make(chan error, 1)}
	q := request{version: version, url: url, stream: reading, body: make([]byte, max(0, length)), chunked: length < 0, header: header}
	go func() {
		var err error
		u.status, u.body, err = q.do(ctx)
		u.answered <- err
	}()
	return u
}

// waiting are tests that run at the same time, however few processors there are: most of their time they wait.
type waiting struct{ sync.WaitGroup }

func (w *waiting) run(t *testing.T, name string, test func(*testing.T)) {
	w.Go(func() { t.Run(name, test) })
}

// TestDeadline_slow has clients that stop within their body: the answer is 408, and the server does not wait for the rest.
func TestDeadline_slow(t *testing.T) {
	var atOnce waiting
	defer atOnce.Wait()
	const within = 500 * time.Millisecond
	for _, test := range []struct {
		name, version, server string
		hides                 bool
	}{
		{"idle", "HTTP/1.1", theSite.plain, false},
		{"idle", "HTTP/2.0", theSite.tls, false},
		{"idle", "HTTP/2.0 cleartext", theSite.plain, false},
		{"idle", "HTTP/3.0", theSite.tls, false},
		{"bare", "HTTP/1.1", theSite.bare, false},
		{"bare", "HTTP/2.0 cleartext", theSite.bare, false},
		{"timed", "HTTP/1.1", theSite.timed, false},
		{"timed", "HTTP/2.0 cleartext", theSite.timed, false},
		{"hidden idle", "HTTP/1.1", theSite.plain, true},
		{"hidden idle", "HTTP/3.0", theSite.tls, true},
		{"hidden bare", "HTTP/2.0 cleartext", theSite.bare, true},
		{"hidden bare", "HTTP/3.0", theSite.bareTLS, true},
		{"bare", "HTTP/3.0", theSite.bareTLS, false},
	} {
		atOnce.run(t, test.name+"/"+test.version, func(t *testing.T) {
			account := requestbody.NewAccount(room)
			took, sent := make(chan time.Duration, 1), make(chan struct{}, 1)
			first := register(t, func(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
				<-sent
				begin, writer := time.Now(), w
				if test.hides {
					writer = hidden{w}
				}
				reading := account.Read(writer, r, client, requestbody.Bounds{Size: 1000, Within: within})
				took <- time.Since(begin)
				assert.Equal(t, reading.Result(), requestbody.TooSlow, "the result")
				assert.ErrorIf(t, reading.Err() == nil, "no error")
				return caddyhttp.Error(reading.Result().Status(), reading.Err())
			})
			scheme := "http://"
			if test.server == theSite.tls || test.server == theSite.bareTLS {
				scheme = "https://"
			}
			left := `"Read":500,`
			if test.version == "HTTP/1.1" {
				left = `"Read":0,`
			}
			// The error route reads what is left: the bytes, where the request's context has not ended, and the error again.
			assert.Retry(t, "the bytes come in time", func() (again bool, seen any) {
				u := startUpload(t.Context(), test.version, scheme+test.server+"/digest", 1000, http.Header{"X-First": {first}})
				defer u.Close() //nolint:errcheck // of a pipe
				assert.NoError(u.Write(textOf(500)))(t)
				sent <- struct{}{}
				assert.Must(t, <-u.answered)
				waited := <-took
				assert.ErrorIf(t, waited < within, "it took %v", waited)
				isTimeout := strings.Contains(u.body, "deadline") || strings.Contains(u.body, "timeout")
				assert.ErrorIf(t, !isTimeout, "%d: the error route sees %s", u.status, u.body)
				checkGivenBack(t, account)
				return !strings.Contains(u.body, left) || waited > within+5*time.Second, fmt.Sprint(u.body, " after ", waited)
			})
		})
	}
}

// TestDeadline_over has handlers wait for longer than the time to read once a body is read, and then read on: the
// deadline holds no more.
func TestDeadline_over(t *testing.T) {
	var atOnce waiting
	defer atOnce.Wait()
	const within = 500 * time.Millisecond
	servers := map[string][]string{
		"HTTP/1.1":           {theSite.plain, theSite.bare, theSite.timed},
		"HTTP/2.0":           {theSite.tls},
		"HTTP/2.0 cleartext": {theSite.plain, theSite.bare, theSite.timed},
		"HTTP/3.0":           {theSite.tls, theSite.bareTLS},
	}
	for version, addresses := range servers {
		for _, address := range addresses {
			for _, size := range []int{1000, 400} {
				atOnce.run(t, fmt.Sprintf("%s/%s/%d", version, address, size), func(t *testing.T) {
					account, over := requestbody.NewAccount(room), make(chan requestbody.ReadResult, 1)
					first := register(t, func(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
						reading := account.Read(w, r, client, requestbody.Bounds{Size: size, Within: within})
						if reading.Result() == requestbody.TooSlow { // this machine is
							over <- reading.Result()
							return nil
						}
						<-time.After(2 * within)
						over <- reading.Result()
						assert.Must(t, r.Context().Err())
						return next.ServeHTTP(w, r)
					})
					scheme := "http://"
					if version == "HTTP/2.0" || version == "HTTP/3.0" {
						scheme = "https://"
					}
					body := textOf(1000)
					send := func() (late bool) {
						var result requestbody.ReadResult
						began := time.Now()
						u := startUpload(t.Context(), version, scheme+address+"/digest", -1, http.Header{"X-First": {first}})
						assert.NoError(u.Write(body[:500]))(t)
						if size < 500 { // the handler has what it wants
							result = <-over
						}
						_, _ = u.Write(body[500:]) // an error is the answer's as well
						assert.Must(t, u.Close())
						err := <-u.answered
						if size >= 500 {
							result = <-over
						}
						whole := strings.Contains(u.body, `"Read":1000,"Trailer":"","Failure":""`)
						if result == requestbody.TooSlow || !whole && time.Since(began) > 2*time.Second { // which servers with a timeout wait
							return true
						}
						assert.Must(t, err)
						assert.ErrorIf(t, !whole, "%d: the handler behind sees %s", u.status, u.body)
						checkGivenBack(t, account)
						return false
					}
					assert.Retry(t, "the body comes in time", func() (again bool, seen any) { return send(), "it came late" })
				})
			}
		}
	}
}

// TestDeadline_server has the server's own read_timeout of two seconds go on to hold for the rest of a body.
func TestDeadline_server(t *testing.T) {
	var atOnce waiting
	defer atOnce.Wait()
	for _, address := range []string{theSite.timed, theSite.timedBare} {
		for _, version := range []string{"HTTP/1.1", "HTTP/2.0 cleartext"} {
			atOnce.run(t, version+"/"+address, func(t *testing.T) {
				account, results := requestbody.NewAccount(room), make(chan requestbody.ReadResult, 1)
				first := reader(t, account, wide(400), func(got requestbody.Reading) { results <- got.Result() })
				assert.Retry(t, "the beginning comes in time", func() (again bool, seen any) {
					begin := time.Now()
					u := startUpload(t.Context(), version, "http://"+address+"/digest", -1, http.Header{"X-First": {first}})
					defer u.Close()             //nolint:errcheck // of a pipe
					_, _ = u.Write(textOf(500)) // an error is the answer's as well
					err, took := <-u.answered, time.Since(begin)
					result := <-results
					if took > 3*time.Second && (err != nil || result != requestbody.TooLarge || !strings.Contains(u.body, `"Read":500,`)) {
						return true, u.body
					}
					assert.Must(t, err)
					assert.Equal(t, result, requestbody.TooLarge, "the result")
					assert.ErrorIf(t, took < time.Second, "it took %v", took)
					failed := !strings.Contains(u.body, `"Failure":""`)
					assert.ErrorIf(t, !strings.Contains(u.body, `"Read":500,`) || !failed, "%d: the handler behind sees %s", u.status, u.body)
					return took > 10*time.Second, fmt.Sprint("it took ", took)
				})
			})
		}
	}
}

// TestDeadline_trickle has a client send a byte at a time, which a timeout of idle clients would let go on.
func TestDeadline_trickle(t *testing.T) {
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			account := requestbody.NewAccount(room)
			first := register(t, func(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
				reading := account.Read(hidden{w}, r, client, requestbody.Bounds{Size: 1 << 20, Within: 100 * time.Millisecond})
				assert.Equal(t, reading.Result(), requestbody.TooSlow, "the result")
				return next.ServeHTTP(w, r)
			})
			u := startUpload(t.Context(), version, theSite.url(version, "/digest"), -1, http.Header{"X-First": {first}})
			var err error
			for answered := false; !answered; {
				_, _ = u.Write([]byte("x")) // an error is the answer's as well
				select {
				case err = <-u.answered:
					answered = true
				case <-time.After(5 * time.Millisecond):
				}
			}
			assert.Must(t, err)
			assert.ErrorIf(t, strings.Contains(u.body, `"Failure":""`), "%d: the handler behind sees %s", u.status, u.body)
		})
	}
}

// TestDeadline_goroutines has no body leave a goroutine behind.
func TestDeadline_goroutines(t *testing.T) {
	account := requestbody.NewAccount(room)
	first := register(t, func(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
		account.Read(hidden{w}, r, client, requestbody.Bounds{Size: 1000, Within: 50 * time.Millisecond})
		return next.ServeHTTP(w, r)
	})
	send := func() {
		ctx, leave := context.WithCancel(t.Context())
		u := startUpload(ctx, "HTTP/2.0 cleartext", "http://"+theSite.bare+"/digest", 1000, http.Header{"X-First": {first}})
		_, _ = u.Write(textOf(500)) // an error is the answer's as well
		assert.Must(t, <-u.answered)
		leave()
		_ = u.Close() // of a pipe
	}
	send() // connects
	before := runtime.NumGoroutine()
	for range 20 {
		send()
	}
	assert.Retry(t, "the goroutines have ended", func() (again bool, seen any) {
		n := runtime.NumGoroutine()
		return n > before+3, n
	})
}
