package requests

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/quic-go/quic-go/http3"
	"golang.org/x/net/http2"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// speakers are clients for one version of HTTP each. They accept any certificate.
func speakers(t *testing.T) map[string]http.RoundTripper {
	t.Helper()
	versions := map[string]func(*http.Protocols){
		"HTTP/1.1":           func(p *http.Protocols) { p.SetHTTP1(true) },
		"HTTP/2.0":           func(p *http.Protocols) { p.SetHTTP2(true) },
		"HTTP/2.0 cleartext": func(p *http.Protocols) { p.SetUnencryptedHTTP2(true) },
	}
	quic := &http3.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, ServerName: "localhost"}}
	t.Cleanup(func() { assert.Must(t, quic.Close()) })
	speakers := map[string]http.RoundTripper{"HTTP/3.0": quic}
	for name, set := range versions {
		transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, ServerName: "localhost"}, Protocols: new(http.Protocols)}
		set(transport.Protocols)
		t.Cleanup(transport.CloseIdleConnections)
		speakers[name] = transport
	}
	return speakers
}

// versionsNode is a Caddy that serves one site over TLS, by every version of HTTP, and over cleartext HTTP.
type versionsNode struct {
	*caddytest.Node
	addresses map[string]string // of the site, by transport
}

// startVersions starts a Caddy with the text of a site.
func startVersions(t *testing.T, global, site string, env ...string) *versionsNode {
	t.Helper()
	open := redistest.FreeAddr(t)
	text := caddytest.ConfigWithSites("skip_install_trust\nservers {\nprotocols h1 h2 h2c h3\n}\n"+global,
		"https://localhost:{$PORT} {\nlog\ntls internal\n"+site+"\n}\n\nhttp://"+open+" {\nlog\n"+site+"\n}\n")
	n := caddytest.Start(t, strings.Replace(text, "auto_https off", "auto_https disable_redirects", 1), env...)
	return &versionsNode{n, map[string]string{"TLS": strings.TrimPrefix(n.URL, "http://"), "h2c": open}}
}

// url returns the URL of the site for one of the speakers.
func (n *versionsNode) url(speaker string) string {
	if strings.HasSuffix(speaker, " cleartext") {
		return "http://" + n.addresses["h2c"]
	}
	return strings.Replace(n.LocalhostURL(), "http:", "https:", 1)
}

// TestProtocols_versions sends requests by each version, with a quota of two for each.
func TestProtocols_versions(t *testing.T) {
	caddytest.OnBothStores(t, func(t *testing.T, global, _ string) {
		n := startVersions(t, global, "redis_ratelimit {query.k} 2 24h\nrespond {http.request.proto}")
		for name, speaker := range speakers(t) {
			t.Run(name, func(t *testing.T) {
				version, _, _ := strings.Cut(name, " ")
				for left := int64(1); left >= -1; left-- {
					a := ask(t, speaker, n.url(name)+"/?k="+strings.ReplaceAll(name, " ", ""))
					caddytest.CheckQuota(t, a, 2, max(left, 0))
					if left < 0 {
						caddytest.CheckRefusal(t, a, http.StatusTooManyRequests).Want(t, 0, deniedText, plainText)
					} else if a.Status != http.StatusOK || a.Body != version {
						t.Errorf("got %v; want it served by %s", a, version)
					}
				}
			})
		}
	})
}

// ask sends a request until the certificate has been issued.
func ask(t *testing.T, speaker http.RoundTripper, url string) (a caddytest.Response) {
	t.Helper()
	assert.WaitFor(t, "the site answers", func() error {
		request := caddytest.GetRequest(t.Context(), t, url)
		response, err := speaker.RoundTrip(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		a = caddytest.Response{Status: response.StatusCode, Header: response.Header, Body: string(body)}
		return err
	})
	return a
}

// TestProtocols_websocket sends frames through a proxied connection, which counts by its status.
func TestProtocols_websocket(t *testing.T) {
	caddytest.OnEachStore(t, "redis_ratelimit same 2 24h {\ncount_if status 101\n}\nreverse_proxy "+caddytest.NewHolder(t).Addr, func(t *testing.T, n *caddytest.Node, _ string) {
		for left := int64(1); left >= 0; left-- {
			conversation := upgrade(t, n, http.StatusSwitchingProtocols, left)
			for _, word := range []string{"hello", "again"} {
				frame := append([]byte{0x81, 0x80 | byte(len(word)), 0, 0, 0, 0}, word...) // text, masked by zeros
				if _, err := conversation.Write(frame); err != nil {
					t.Fatal(err)
				}
				got := make([]byte, len(frame))
				if _, err := io.ReadFull(conversation, got); err != nil || string(got) != string(frame) {
					t.Errorf("the echo of %q is %q, error %v", frame, got, err)
				}
			}
			_ = conversation.Close() // no frames follow
		}
		upgrade(t, n, http.StatusTooManyRequests, 0)
	})
}

// upgrade requests a WebSocket and checks the response. The connection ends after half a minute.
func upgrade(t *testing.T, n *caddytest.Node, status int, left int64) io.ReadWriteCloser {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	request := caddytest.GetRequest(ctx, t, n.URL+"/websocket")
	caddytest.Upgrade(request)
	response, err := n.Client.Transport.RoundTrip(request) // the client's timeout would wrap the body, which could not be written then
	assert.Must(t, err)
	a := caddytest.Response{Status: response.StatusCode, Header: response.Header}
	caddytest.CheckQuota(t, a, 2, left)
	if status == http.StatusTooManyRequests {
		caddytest.CheckRefusal(t, a, status)
		_ = response.Body.Close()
		return nil
	}
	conversation, ok := response.Body.(io.ReadWriteCloser)
	assert.FatalIf(t, !ok || a.Status != status, "got %v; want the connection upgraded", a)
	context.AfterFunc(ctx, func() { _ = conversation.Close() }) // it may be closed already
	return conversation
}

// TestProtocols_extendedConnect opens a WebSocket by HTTP/2 (RFC 8441) and HTTP/3 (RFC 9220), which begins with 200. It
// is judged as over HTTP/1.1: by 101, until its end, and what passes it is no body.
func TestProtocols_extendedConnect(t *testing.T) {
	t.Parallel()
	upstream := caddytest.NewHolder(t)
	n := startVersions(t, "", `redis_ratelimit {
		policy upgrades { key same; limit 100; window 24h; count_if status 101 }
		policy bytes { key same; limit 100; window 24h; weight 10; cost response_bytes }
		policy places { key same; max_concurrent 1 }
	}
	reverse_proxy `+upstream.Addr, "GODEBUG=http2xconnect=1")
	ask(t, speakers(t)["HTTP/3.0"], n.url("")+"/quick") // the certificate is issued
	third := &http3.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, ServerName: "localhost"}}
	defer third.Close() //nolint:errcheck // the test ends with it
	connection := assert.NoError(net.Dial("tcp", n.addresses["h2c"]))(t)
	second, err := new(http2.Transport).NewClientConn(connection) //nolint:staticcheck // http.Transport refuses the field :protocol
	assert.Must(t, err)
	defer second.Close() //nolint:errcheck // the test ends with it
	for i, version := range []struct {
		speaker http.RoundTripper
		url     string
		header  http.Header
	}{
		{second, n.url("HTTP/2.0 cleartext"), http.Header{":protocol": {"websocket"}, "Sec-Websocket-Version": {"13"}}},
		{third, n.url("HTTP/3.0"), http.Header{"Sec-Websocket-Version": {"13"}}},
	} {
		connect := func(body io.Reader) *http.Response {
			request := assert.NoError(http.NewRequestWithContext(t.Context(), http.MethodConnect, version.url+"/websocket", body))(t)
			request.Proto, request.ContentLength, request.Header = "websocket", -1, version.header
			return assert.NoError(version.speaker.RoundTrip(request))(t)
		}
		reading, writing := io.Pipe()
		opened := connect(reading)
		t.Cleanup(func() { _ = opened.Body.Close() }) // the test is over
		assert.FatalIf(t, opened.StatusCode != http.StatusOK, "got %s", opened.Status)
		assert.NoError(io.WriteString(writing, "hello"))(t)
		echoed := make([]byte, len("hello"))
		if _, err := io.ReadFull(opened.Body, echoed); err != nil || string(echoed) != "hello" {
			t.Fatalf("the echo is %q, error %v", echoed, err)
		}
		refused := connect(http.NoBody)
		_ = refused.Body.Close() // it has none
		caddytest.CheckRefusal(t, caddytest.Response{Status: refused.StatusCode, Header: refused.Header}, http.StatusTooManyRequests)
		upstream.EndOne()
		_ = writing.Close() // it cannot fail
		n.WaitForRefund(t, "upgrades", "same", int64(99-i))
		n.WaitForRefund(t, "bytes", "same", 100)
		n.WaitForRefund(t, "places", "same", 1)
	}
}

// TestProtocols_serverSentEvents has an upstream that sends its second event only after the client has read the first.
func TestProtocols_serverSentEvents(t *testing.T) {
	read := make(chan struct{})
	events := caddytest.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "data: first\n\n")
		_ = http.NewResponseController(w).Flush() // it is supported
		select {
		case <-read:
			fmt.Fprint(w, "data: second\n\n")
		case <-r.Context().Done():
		}
	})
	caddytest.OnEachStore(t, "redis_ratelimit same 1 24h\nreverse_proxy "+events, func(t *testing.T, n *caddytest.Node, _ string) {
		request := caddytest.GetRequest(t.Context(), t, n.URL)
		response := assert.NoError(n.Client.Do(request))(t)
		defer response.Body.Close()
		caddytest.CheckQuota(t, caddytest.Response{Header: response.Header}, 1, 0)
		lines := bufio.NewReader(response.Body)
		checkEvent(t, lines, "first")
		read <- struct{}{}
		checkEvent(t, lines, "second")
		caddytest.CheckRefusal(t, n.Get(t, "/"), http.StatusTooManyRequests)
	})
}

func checkEvent(t *testing.T, lines *bufio.Reader, want string) {
	t.Helper()
	for _, want := range []string{"data: " + want + "\n", "\n"} {
		if line, err := lines.ReadString('\n'); err != nil || line != want {
			t.Fatalf("read %q, error %v; want %q", line, err, want)
		}
	}
}
