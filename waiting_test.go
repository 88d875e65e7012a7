package redisratelimit

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// waitingJSON is a handler whose requests wait for the one place of a key.
func waitingJSON(key, longest string) string {
	return fmt.Sprintf(`{"policies":[{"name":"waits","key":%q,"max_concurrent":1,"wait":{"longest":%q,"most":3}}]}`, key, longest)
}

// holdPlace has a request run until the function is called, which waits for its end.
func holdPlace(t *testing.T, h *Handler) (end func()) {
	t.Helper()
	runs, ends, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	server := serve(t, func(http.ResponseWriter, *http.Request) error {
		close(runs)
		<-ends
		return nil
	}, h)
	go func() {
		defer close(ended)
		if response, err := http.Get(server.URL); err == nil { // else the test ends without it
			_ = response.Body.Close()
		}
	}()
	<-runs
	end = func() {
		close(ends)
		<-ended
	}
	return end
}

// TestWaiting_slowBody has bodies of HTTP/1.1 that do not come in time: a request whose wait is over is refused as the others
// are, and one that has its place for being slow. A body that takes longer than the wait does not matter.
func TestWaiting_slowBody(t *testing.T) {
	const whole = "half and half"
	post := func(server *httptest.Server) (body *io.PipeWriter, status chan int) {
		reading, writing := io.Pipe()
		status = make(chan int, 1)
		r := assert.NoError(http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, reading))(t)
		r.ContentLength = int64(len(whole)) // without one a waiting request's body is left alone
		go func() {
			response, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Error(err)
				status <- 0
				return
			}
			_ = response.Body.Close()
			status <- response.StatusCode
		}()
		return writing, status
	}
	held := func() (now int64) { return process.Held.Used() }
	awaitHeld := func(want int64) {
		assert.Retry(t, fmt.Sprint(want, " requests wait"), func() (again bool, seen any) { return held() != want, held() })
	}
	before := held()
	type slowBody struct {
		within    time.Duration
		longest   time.Duration
		hasPlace  bool
		completes bool
		want      int
	}
	play := func(name string, test slowBody) (late bool) {
		began := time.Now()
		h := newHandler(t, waitingJSON("slow "+name, test.longest.String()))
		h.limiter.BodyBounds.Within = test.within
		end := holdPlace(t, h)
		server := serve(t, func(_ http.ResponseWriter, r *http.Request) error {
			if body, err := io.ReadAll(r.Body); err != nil || string(body) != whole {
				t.Errorf("%s: the body is %q, error %v", name, body, err)
			}
			return nil
		}, h)
		body, status := post(server)
		assert.NoError(io.WriteString(body, "half "))(t)
		if test.hasPlace {
			assert.Retry(t, "the request waits", func() (again bool, seen any) {
				return held() != before+1 && time.Since(began) < test.longest, held()
			})
			assert.Retry(t, "the body's beginning is read", func() (again bool, seen any) {
				return bodies.Held() == 0 && time.Since(began) < test.longest, bodies.Held()
			})
			end()
			awaitHeld(before)
			late = time.Since(began) >= test.longest // this machine is, and the wait may have been over before
		}
		if test.completes {
			<-time.After(test.longest)              // which has no clock that a test could move
			_, _ = io.WriteString(body, "and half") // an error is the answer's as well
			_ = body.Close()                        // it cannot fail
		}
		got := <-status
		assert.ErrorIf(t, got != test.want && !late, "%s: the status is %d, want %d", name, got, test.want)
		_ = body.CloseWithError(io.ErrClosedPipe) // the client waits for it; it cannot fail
		if !test.hasPlace {
			end()
		}
		next := fetch(t, serve(t, hello, h).URL)
		assert.Equal(t, next.StatusCode, http.StatusOK, "%s: the status of the next", name)
		return late && got != test.want
	}
	for name, test := range map[string]slowBody{
		"wait over":            {50 * time.Millisecond, time.Second, false, false, http.StatusTooManyRequests},
		"wait over before":     {1500 * time.Millisecond, 100 * time.Millisecond, false, false, http.StatusTooManyRequests},
		"slow with a place":    {time.Second, time.Second, true, false, http.StatusRequestTimeout},
		"later than the wait":  {time.Minute, time.Second, true, true, http.StatusOK},
		"comes after the wait": {time.Minute, 100 * time.Millisecond, false, true, http.StatusTooManyRequests},
	} {
		assert.Retry(t, name+": the place is free in time", func() (again bool, seen any) { return play(name, test), "it was late" })
	}
	awaitHeld(before)
}

// TestWaiting_fullProcess has as many requests held in the process as may: more are refused, also those that delay would hold.
func TestWaiting_fullProcess(t *testing.T) {
	h := newHandler(t, waitingJSON("full process", "10m"))
	end := holdPlace(t, h)
	fillRoom(t)
	response := fetch(t, serve(t, hello, h).URL)
	assert.Equal(t, response.StatusCode, http.StatusServiceUnavailable, "the status")
	assert.Equal(t, response.Header.Get("Retry-After"), "1", "Retry-After")
	refused := call(t, serve(t, hello, h).URL)
	assert.Equal(t, refused.Header.Get("Grpc-Status"), "14", "the status of a call")
	for range 2 { // of all that are held
		process.Held.Leave()
	}
	answers := make(chan int, 1)
	server := serve(t, hello, h)
	go func() {
		answer, err := http.Post(server.URL, "text/plain", strings.NewReader("body"))
		if err != nil {
			t.Error(err)
			answers <- 0
			return
		}
		_ = answer.Body.Close()
		answers <- answer.StatusCode
	}()
	end()
	assert.Equal(t, <-answers, http.StatusOK, "the status of one that has room to wait")
	for range 2 {
		process.Held.Enter()
	}
}

// TestWaiting_manyKeys has requests of ten thousand keys wait, each by a long value of its own. All start, and nothing is left.
func TestWaiting_manyKeys(t *testing.T) {
	const keys = 10_000
	before := process.Held.Used()
	h := newHandler(t, `{"policies":[{"name":"many-keys","key":"{http.request.uri.query.k}","max_concurrent":1,
		"wait":{"longest":"10m","by":"{http.request.header.X-User}"}}]}`)
	var runs, all sync.WaitGroup
	var served atomic.Int64
	ends := make(chan struct{})
	ask := func(key int, inside func()) {
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, fmt.Sprint("/?k=", key), nil)
		r.Header.Set("X-User", strings.Repeat(fmt.Sprint(key, "\xff"), 200))
		prepared := caddyhttp.PrepareRequest(r, caddy.NewReplacer(), w, &caddyhttp.Server{})
		err := h.ServeHTTP(w, prepared, caddyhttp.HandlerFunc(func(http.ResponseWriter, *http.Request) error {
			inside()
			return nil
		}))
		if err != nil {
			t.Error(err)
		}
	}
	runs.Add(keys)
	for key := range keys {
		all.Go(func() {
			ask(key, func() {
				runs.Done()
				<-ends
			})
		})
	}
	runs.Wait()
	for key := range keys {
		all.Go(func() { ask(key, func() { served.Add(1) }) })
	}
	assert.Retry(t, "all wait", func() (again bool, seen any) { return process.Held.Used() != before+keys, process.Held.Used() - before })
	close(ends)
	all.Wait()
	assert.Equal(t, served.Load(), int64(keys), "the number of requests that have waited and been served")
	assert.Equal(t, process.Held.Used(), before, "the number of requests that wait")
}
