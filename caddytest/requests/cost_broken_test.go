package requests

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// model is an upstream that responds with the number of used tokens and of bytes that the request names, or breaks off:
// before the response or within it. It hangs within the response until the client leaves, or before it.
type model struct {
	addr        string
	began, left chan struct{} // the requests that hang
}

func newModel(t *testing.T) *model {
	t.Helper()
	m := &model{began: make(chan struct{}), left: make(chan struct{})}
	m.addr = caddytest.Serve(t, m.ServeHTTP)
	return m
}

func (m *model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query, length := r.URL.Query(), 0
	breaks := query.Get("break")
	if tokens := query.Get("tokens"); tokens != "" {
		w.Header().Set("X-Tokens-Used", tokens)
	}
	_, _ = fmt.Sscan(query.Get("bytes"), &length) // none is 0
	if breaks == "within" || breaks == "hangs-within" {
		w.Header().Set("Content-Length", "1000")
	}
	if breaks != "before" && breaks != "hangs" {
		_, _ = io.WriteString(w, strings.Repeat("x", length))
		_ = http.NewResponseController(w).Flush() // it can
	}
	if strings.HasPrefix(breaks, "hangs") {
		m.began <- struct{}{}
		<-r.Context().Done()
		m.left <- struct{}{}
	} else if breaks != "" {
		panic(http.ErrAbortHandler)
	}
}

// leave has a client leave a request that hangs, before the response or after ten bytes of it.
func (m *model) leave(t *testing.T, n *caddytest.Node, url string) {
	t.Helper()
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		if response, err := n.Client.Do(caddytest.GetRequest(ctx, t, url)); err == nil {
			_, _ = io.ReadFull(response.Body, make([]byte, 10))
			leave()
			_ = response.Body.Close()
		}
	}()
	<-m.began
	if !strings.Contains(url, "within") {
		leave()
	}
	<-m.left
	<-gone
}

// brokenSite settles estimates of 100 units of 1000.
func brokenSite(option, source, upstream string) string {
	name := "by-" + strings.Trim(strings.Split(source, ".")[0], "{_")
	return caddytest.Config(option, `redis_ratelimit /ask* {query.k} 1000 400d { name `+name+`; algorithm fixed_window; weight 100; cost `+source+` }
	redis_ratelimit /look {query.k} 1000 400d { name `+name+`; algorithm fixed_window; count_if status 418 }
	error /ask/500 500
	error /ask/404 404
	respond /ask/answer500 500
	respond /ask/304 304
	respond /ask/204 204
	reverse_proxy /ask/gone 127.0.0.1:1
	reverse_proxy `+upstream+` { flush_interval -1 }`)
}

// checkLook checks what remains of the key of a request, by tokens and by bytes.
func checkLook(t *testing.T, n *caddytest.Node, source, path string, want [2]string) {
	t.Helper()
	left := want[0]
	if source == "response_bytes" {
		left = want[1]
	}
	_, query, _ := strings.Cut(path, "?")
	key, _, _ := strings.Cut(query, "&")
	t.Run(source+path, func(t *testing.T) { checkRemaining(t, n, "/look?"+key, left) })
}

// TestCost_brokenOff has responses break off by what is behind the handlers, and clients leave. The estimate stays where
// the cost is not known, by a header or by bytes that were sent.
func TestCost_brokenOff(t *testing.T) {
	caddytest.OnBothStores(t, func(t *testing.T, option, _ string) {
		upstream := newModel(t)
		for _, source := range []string{"{http.reverse_proxy.header.X-Tokens-Used} 70", "response_bytes"} {
			n := caddytest.Start(t, brokenSite(option, source, upstream.addr))
			for path, want := range map[string][2]string{ // by tokens, by bytes
				"/ask?k=whole&tokens=40":                       {"960", "990"},
				"/ask?k=fallback":                              {"930", "990"},
				"/ask?k=before&break=before":                   {"900", "900"},
				"/ask?k=before-told&break=before":              {"900", "900"},
				"/ask?k=within&break=within":                   {"900", "990"},
				"/ask?k=within-told&break=within&tokens=40":    {"960", "990"},
				"/ask/500?k=error":                             {"1000", "1000"},
				"/ask/gone?k=gone":                             {"1000", "1000"},
				"/ask/404?k=refused":                           {"1000", "1000"},
				"/ask/answer500?k=answer":                      {"1000", "1000"},
				"/ask/304?k=unchanged":                         {"930", "1000"},
				"/ask/204?k=empty":                             {"930", "1000"},
				"/ask?k=left&break=hangs":                      {"900", "900"},
				"/ask?k=left-told&break=hangs&tokens=40":       {"900", "900"},
				"/ask?k=left-in&break=hangs-within":            {"900", "990"},
				"/ask?k=told-in&break=hangs-within&tokens=250": {"750", "990"},
			} {
				if url := n.URL + path + "&bytes=10"; strings.Contains(path, "hangs") {
					upstream.leave(t, n, url)
				} else {
					_, _ = n.Try(http.MethodGet, url, "") // some have no end
				}
				checkLook(t, n, source, path, want)
			}
			n.Send(t, http.MethodHead, n.URL+"/ask?k=head&tokens=40", "")
			checkLook(t, n, source, "/ask?k=head", [2]string{"960", "1000"})
		}
	})
}

// streamedTokens is a stream of 40 tokens, as models of the known APIs end it.
const streamedTokens = "data: {\"usage\":{\"total_tokens\":40}}\n\ndata: [DONE]\n\n"

// lingering sends the body that the path names, and ends it only after the client has left.
func lingering(t *testing.T, bodies map[string][2]string) string {
	t.Helper()
	return caddytest.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		body := bodies[strings.TrimPrefix(r.URL.Path, "/")]
		w.Header().Set("Content-Type", body[0])
		_, _ = io.WriteString(w, body[1])
		_ = http.NewResponseController(w).Flush() // it can
		<-r.Context().Done()
	})
}

// readAndLeave reads so much of a response and leaves at once.
func readAndLeave(t *testing.T, speaker http.RoundTripper, url string, length int) {
	t.Helper()
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	response, err := speaker.RoundTrip(caddytest.GetRequest(ctx, t, url))
	if err != nil {
		t.Error(err)
		return
	}
	if _, err := io.ReadFull(response.Body, make([]byte, length)); err != nil {
		t.Error(err)
	}
	leave()
	_ = response.Body.Close()
}

// TestComplete_leftAtTheEnd has clients that leave as soon as they have everything, while the server ends the body a
// moment later, and clients that leave before.
func TestComplete_leftAtTheEnd(t *testing.T) {
	bodies := map[string][2]string{
		"stream":   {"text/event-stream", streamedTokens},
		"document": {"application/json", `{"usage":{"total_tokens":40}}`},
		"within":   {"text/event-stream", strings.TrimSuffix(streamedTokens, "data: [DONE]\n\n")},
		"half":     {"application/json", `{"usage":{"total_tokens":40}`},
	}
	upstream := lingering(t, bodies)
	policy := func(name, option string) string {
		return "policy " + name + " {\nkey {query.k}\nlimit 1000000\nwindow 50d\nalgorithm fixed_window\n" + option + "\n}\n"
	}
	caddytest.OnBothStores(t, func(t *testing.T, option, _ string) {
		for _, version := range []string{"HTTP/1.1", "HTTP/2.0 cleartext"} {
			n := caddytest.Start(t, caddytest.Config(option+"\nservers {\nprotocols h1 h2c\n}\n", "redis_ratelimit {\n"+
				policy("settled", "weight 11260\ncost json usage.total_tokens 11260")+policy("charged", "cost json usage.total_tokens 11260")+
				"}\nreverse_proxy "+upstream))
			speaker := speakers(t)[version]
			for path, cost := range map[string]int64{"stream": 40, "document": 40, "within": 11260, "half": 11260} {
				key := fmt.Sprintf("%s%c", path, version[5])
				for range 20 {
					readAndLeave(t, speaker, n.URL+"/"+path+"?k="+key, len(bodies[path][1]))
				}
				n.WaitForRefund(t, "settled", key, 1_000_000-20*cost)
				n.WaitForRefund(t, "charged", key, 1_000_000-20*cost)
			}
			n.CheckMetric(t, `invalid_values_total{option="cost",policy="settled"}`, 0)
			n.CheckMetric(t, `invalid_values_total{option="cost",policy="charged"}`, 0)
		}
	})
}

// TestComplete_withoutKeepAlive has clients of HTTP/1.1 that close with the last byte, which none has broken off.
func TestComplete_withoutKeepAlive(t *testing.T) {
	upstream := caddytest.Serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "0123456789") })
	n := caddytest.InProcess(t, `redis_ratelimit {query.k} 1000000 50d { algorithm fixed_window; weight 1000; cost {http.reverse_proxy.header.X-None} 7 }
	reverse_proxy `+upstream+` { flush_interval -1 }`)
	transport := &http.Transport{DisableKeepAlives: true}
	var clients sync.WaitGroup
	for range 16 {
		clients.Go(func() {
			for range 100 {
				readAndLeave(t, transport, n.URL+"/?k=a", 10)
			}
		})
	}
	clients.Wait()
	n.WaitForRefund(t, "default", "a", 1_000_000-16*100*7)
}

// TestComplete_leftBeforeTheHeader has a client that leaves before the upstream has answered. It pays the estimate,
// and no configuration is wrong.
func TestComplete_leftBeforeTheHeader(t *testing.T) {
	t.Parallel()
	upstream := caddytest.NewHolder(t)
	for source, want := range map[string]int64{"json a 70": 100, "json a 170": 170, "{http.reverse_proxy.header.X-None} 70": 100, "response_bytes": 100} {
		n := caddytest.Start(t, caddytest.Config("", "redis_ratelimit same 1000 400d {\nalgorithm fixed_window\nweight 100\ncost "+source+"\n}\nreverse_proxy "+upstream.Addr))
		r := upstream.Begin(t, n, "/")
		r.Leave()
		<-r.Ended
		n.CheckMetric(t, `decisions_total{decision="allowed",policy="default",source="memory"}`, 1)
		n.WaitForRefund(t, "default", "same", 1000-want)
		n.Stop(t) // which waits for the request
		assert.ErrorIf(t, strings.Contains(n.Log.String(), "a value cannot be used"), "%s: the log has an invalid value:\n%s", source, n.Log)
	}
}

// TestComplete_bytesOfAFailedWrite has a client of HTTP/2 that reads a part of a piece, of which Go says that nothing
// was sent.
func TestComplete_bytesOfAFailedWrite(t *testing.T) {
	t.Parallel()
	const window, piece = 16 << 10, 32 << 10
	n := caddytest.Start(t, caddytest.Config("servers {\nprotocols h1 h2c\n}\n", `redis_ratelimit {query.k} 1000000 50d {
		algorithm fixed_window
		weight 100
		cost response_bytes
	}
	respond /long `+strings.Repeat("x", 100_000)+`
	respond `+strings.Repeat("x", piece)))
	speaker := &http.Transport{Protocols: new(http.Protocols), HTTP2: &http.HTTP2Config{MaxReceiveBufferPerStream: window}}
	speaker.Protocols.SetUnencryptedHTTP2(true)
	defer speaker.CloseIdleConnections()
	for _, path := range []string{"/?k=short", "/long?k=long"} {
		readAndLeave(t, speaker, n.URL+path, window-2<<10)
		n.WaitForRefund(t, "default", path[strings.Index(path, "=")+1:], 1_000_000-piece)
	}
	readAndLeave(t, speaker, n.URL+"/?k=all", piece)
	n.WaitForRefund(t, "default", "all", 1_000_000-piece)
}
