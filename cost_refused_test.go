package redisratelimit

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// between is a handler between one that has taken an estimate and one that refuses.
type between func(w http.ResponseWriter, r *http.Request, refuses caddyhttp.Handler) error

// answering writes a status, with a cost in the header unless that is empty.
func answering(w http.ResponseWriter, status int, cost string) error {
	return headerOf(status, cost, 4)(w, nil)
}

// begun begins a response, and flushes it, before the request is refused.
func begun(cost string) between {
	return func(w http.ResponseWriter, r *http.Request, refuses caddyhttp.Handler) error {
		if err := answering(w, http.StatusOK, cost); err != nil {
			return err
		}
		if err := http.NewResponseController(w).Flush(); err != nil {
			return err
		}
		return refuses.ServeHTTP(w, r)
	}
}

// instead answers in place of a refusal.
func instead(answer func(w http.ResponseWriter) error) between {
	return func(w http.ResponseWriter, r *http.Request, refuses caddyhttp.Handler) error {
		_ = refuses.ServeHTTP(httptest.NewRecorder(), r) // an error, or a response that is dropped
		return answer(w)
	}
}

// placing sets a placeholder, as handlers do for what they have seen, before the request is refused.
func placing(name string) between {
	return func(w http.ResponseWriter, r *http.Request, refuses caddyhttp.Handler) error {
		repl, _ := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
		repl.Set(name, time.Millisecond)
		return refuses.ServeHTTP(w, r)
	}
}

// TestCost_refusedFurther has a handler that took an estimate of 100 see what becomes of a refusal further in, which is
// returned as an error or written. The cost that a header tells is 40.
func TestCost_refusedFurther(t *testing.T) {
	for name, test := range map[string]struct {
		between            between
		returned, written  int64  // what is charged
		remainsR, remainsW string // what the headers show
	}{
		"nothing between": {func(w http.ResponseWriter, r *http.Request, refuses caddyhttp.Handler) error {
			return refuses.ServeHTTP(w, r)
		}, 0, 0, "1000", "1000"},
		"compressed": {func(w http.ResponseWriter, r *http.Request, refuses caddyhttp.Handler) error {
			recorder := caddyhttp.NewResponseRecorder(w, new(bytes.Buffer), func(int, http.Header) bool { return true }) // writes the header later
			if err := refuses.ServeHTTP(recorder, r); err != nil {
				return err
			}
			return recorder.WriteResponse()
		}, 0, 0, "1000", "1000"},
		"begun before":              {begun(""), 100, 100, "900", "900"},
		"begun before, with a cost": {begun("40"), 40, 40, "900", "900"},
		"another answer":            {instead(func(w http.ResponseWriter) error { return answering(w, 200, "") }), 100, 100, "900", "900"},
		"another answer with a cost": {instead(func(w http.ResponseWriter) error { return answering(w, 200, "40") }),
			40, 40, "900", "900"},
		"no answer":        {instead(func(http.ResponseWriter) error { return nil }), 0, 0, "1000", "1000"},
		"another error":    {instead(func(http.ResponseWriter) error { return caddyhttp.Error(404, errors.New("lost")) }), 0, 0, "1000", "1000"},
		"another breaks":   {instead(func(http.ResponseWriter) error { return caddyhttp.Error(502, errors.New("lost")) }), 100, 100, "900", "900"},
		"another panics":   {instead(func(http.ResponseWriter) error { panic(http.ErrAbortHandler) }), 100, 100, "", ""},
		"a backend before": {placing("http.reverse_proxy.upstream.latency"), 100, 100, "900", "900"},
		"intercepted":      {placing("http.intercept.status_code"), 100, 100, "900", "900"},
		"in error routes":  {placing("http.error"), 100, 100, "900", "900"},
		"an abort behind": {func(w http.ResponseWriter, r *http.Request, refuses caddyhttp.Handler) error {
			if err := refuses.ServeHTTP(w, r); err != nil {
				return err
			}
			panic(http.ErrAbortHandler)
		}, 0, 0, "1000", "1000"},
	} {
		for form, want := range map[string]struct {
			cost    int64
			remains string
		}{"": {test.returned, test.remainsR}, `"answer":"problem",`: {test.written, test.remainsW}} {
			t.Run(name+form, func(t *testing.T) {
				ctx := lastingContext(t, "")
				outer := loadHandler(t, ctx, `{"policies":[{"name":"estimate","key":"x","limit":1000,"window":"24h","weight":100,`+
					`"cost_from":"{http.response.header.X-Cost}","cost":70}]}`)
				inner := loadHandler(t, ctx, `{`+form+`"headers":["off"],"policies":[{"name":"refusing","key":"x","limit":1,"window":"24h"}]}`)
				answerOnce(t, inner, bytesOf(1, 1), 1, 10) // the only one that passes
				header := refuseBetween(t, outer, inner, test.between)
				c := limiter.Check{Policy: outer.limiter.Rules.Rules[0].Policy, Key: limiter.EncodeKey("x"), Weight: 1, Peek: true}
				outer.app.opened.PeekLocal(&c)
				if charged := 1000 - c.Result.Remaining; charged != want.cost || header.Get("X-RateLimit-Remaining") != want.remains {
					t.Errorf("charged %d, shown in %v, want %d, and %s left", charged, header, want.cost, want.remains)
				}
			})
		}
	}
}

// refuseBetween sends a request through two handlers and one between them, and returns the header of its response.
func refuseBetween(t *testing.T, outer, inner *Handler, middle between) (header http.Header) {
	t.Helper()
	w := httptest.NewRecorder()
	r := caddyhttp.PrepareRequest(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil), caddy.NewReplacer(), w, &caddyhttp.Server{})
	defer func() {
		header = w.Header()
		if reason := recover(); reason != nil && reason != http.ErrAbortHandler { //nolint:errorlint // it is that value
			panic(reason)
		}
	}()
	refuses := caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		return inner.ServeHTTP(w, r, caddyhttp.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) error {
			_, err := io.WriteString(w, "passed")
			return err
		}))
	})
	_ = outer.ServeHTTP(w, r, caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error { return middle(w, r, refuses) })) // some fail
	return header
}
