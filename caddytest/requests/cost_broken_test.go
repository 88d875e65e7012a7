package requests

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// breakingModel responds with used tokens and 10 bytes, or breaks off: before the response or within it. It
// hangs within the response until the client leaves, or before it, and reports when it was left.
func breakingModel(t *testing.T) (address string, began, left chan struct{}) {
	t.Helper()
	began, left = make(chan struct{}), make(chan struct{})
	hang := func(r *http.Request) {
		began <- struct{}{}
		<-r.Context().Done()
		left <- struct{}{}
	}
	return caddytest.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		if tokens := query.Get("tokens"); tokens != "" {
			w.Header().Set("X-Tokens-Used", tokens)
		}
		switch query.Get("break") {
		case "before":
			panic(http.ErrAbortHandler)
		case "hang":
			hang(r)
			return
		}
		if query.Get("break") != "" {
			w.Header().Set("Content-Length", "1000")
		}
		_, _ = io.WriteString(w, strings.Repeat("x", 10))
		_ = http.NewResponseController(w).Flush()
		switch query.Get("break") {
		case "within":
			panic(http.ErrAbortHandler)
		case "hangs-within":
			hang(r)
		}
	}), began, left
}

// brokenSite settles estimates of 100 units of 1000.
func brokenSite(option, source, upstream string) string {
	name := "by-" + strings.Trim(strings.Split(source, ".")[0], "{_")
	return caddytest.Config(option, `redis_ratelimit /ask* {query.k} 1000 24h {
		name `+name+`
		algorithm fixed_window
		weight 100
		cost `+source+`
	}
	redis_ratelimit /look {query.k} 1000 24h {
		name `+name+`
		algorithm fixed_window
		count_if status 418
	}
	error /ask/500 500
	error /ask/404 404
	respond /ask/answer500 500
	respond /ask/304 304
	respond /ask/204 204
	reverse_proxy /ask/gone 127.0.0.1:1
	reverse_proxy `+upstream+` {
		flush_interval -1
	}`)
}

// TestCost_brokenOff has responses break off by what is behind the handlers. The estimate stays where the
// cost is not known, by a header or by bytes that were sent.
func TestCost_brokenOff(t *testing.T) {
	t.Parallel()
	upstream, _, _ := breakingModel(t)
	caddytest.OnBothStores(t, func(t *testing.T, option, _ string) {
		for _, source := range []string{"{http.reverse_proxy.header.X-Tokens-Used} 70", "response_bytes"} {
			n := caddytest.Start(t, brokenSite(option, source, upstream))
			for path, want := range map[string][2]string{ // by tokens, by bytes
				"/ask?k=whole&tokens=40":                    {"960", "990"},
				"/ask?k=fallback":                           {"930", "990"},
				"/ask?k=before&break=before":                {"900", "900"},
				"/ask?k=before-told&break=before":           {"900", "900"},
				"/ask?k=within&break=within":                {"900", "990"},
				"/ask?k=within-told&break=within&tokens=40": {"960", "990"},
				"/ask/500?k=error":                          {"900", "900"},
				"/ask/gone?k=gone":                          {"900", "900"},
				"/ask/404?k=refused":                        {"900", "900"},
				"/ask/answer500?k=answer":                   {"930", "1000"},
				"/ask/304?k=unchanged":                      {"930", "1000"},
				"/ask/204?k=empty":                          {"930", "1000"},
			} {
				_, _ = n.Try(http.MethodGet, n.URL+path, "") // some have no end
				left := want[0]
				if source == "response_bytes" {
					left = want[1]
				}
				_, query, _ := strings.Cut(path, "?")
				key, _, _ := strings.Cut(query, "&")
				t.Run(source+path, func(t *testing.T) { checkRemaining(t, n, "/look?"+key, left) })
			}
			n.Send(t, http.MethodHead, n.URL+"/ask?k=head&tokens=40", "")
			left := map[bool]string{true: "1000", false: "960"}[source == "response_bytes"]
			checkRemaining(t, n, "/look?k=head", left)
		}
	})
}

// TestCost_clientGone has clients leave before a response and within it.
func TestCost_clientGone(t *testing.T) {
	t.Parallel()
	caddytest.OnBothStores(t, func(t *testing.T, option, _ string) {
		for _, source := range []string{"{http.reverse_proxy.header.X-Tokens-Used} 70", "response_bytes"} {
			upstream, began, left := breakingModel(t)
			n := caddytest.Start(t, brokenSite(option, source, upstream))
			for path, want := range map[string][2]string{ // by tokens, by bytes
				"/ask?k=before&break=hang":                  {"900", "900"},
				"/ask?k=before-told&break=hang&tokens=40":   {"900", "900"},
				"/ask?k=within&break=hangs-within":          {"900", "990"},
				"/ask?k=told&break=hangs-within&tokens=250": {"750", "990"},
			} {
				ctx, leave := context.WithCancel(t.Context())
				gone := make(chan struct{})
				go func() {
					defer close(gone)
					response, err := n.Client.Do(caddytest.GetRequest(ctx, t, n.URL+path))
					if err == nil {
						_, _ = io.ReadFull(response.Body, make([]byte, 10))
						leave()
						_ = response.Body.Close()
					}
				}()
				<-began
				if strings.Contains(path, "break=hang&") || strings.HasSuffix(path, "break=hang") {
					leave()
				}
				<-left
				<-gone
				leave()
				remain := want[0]
				if source == "response_bytes" {
					remain = want[1]
				}
				key, _, _ := strings.Cut(path[len("/ask"):], "&")
				t.Run(source+path, func(t *testing.T) { checkRemaining(t, n, "/look"+key, remain) })
			}
		}
	})
}
