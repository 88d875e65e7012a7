package requests

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// TestHTTP3_grpc has calls in frames by hand, since no client of gRPC speaks HTTP/3. They are answered as over HTTP/2.
func TestHTTP3_grpc(t *testing.T) {
	t.Parallel()
	service := startGRPCService(t)
	n := startVersions(t, "", "redis_ratelimit /grpc.testing* {header.X-Key} 1 24h {\nname calls\nalgorithm gcra\n}\nreverse_proxy /grpc.testing* h2c://"+service.addr)
	url := n.url("HTTP/3.0")
	clients := speakers(t)
	for _, version := range []string{"HTTP/2.0", "HTTP/3.0"} {
		ask(t, clients[version], url) // the certificate is issued
		for call, want := range []map[string]string{
			{"Grpc-Status": "0", "X-Ratelimit-Remaining": "0"},
			{"Grpc-Status": "8", "X-Ratelimit-Remaining": "0", "Grpc-Retry-Pushback-Ms": "-1", "Grpc-Message": "rate limit exceeded: policy calls, retry in *"},
		} {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/grpc.testing.TestService/EmptyCall", strings.NewReader("\x00\x00\x00\x00\x00"))
			assert.Must(t, err)
			request.Header = http.Header{"Content-Type": {"application/grpc"}, "Te": {"trailers"}, "X-Key": {version}}
			response := assert.NoError(clients[version].RoundTrip(request))(t)
			_, err = io.ReadAll(response.Body)
			assert.Must(t, err)
			_ = response.Body.Close() // it is read
			a := caddytest.Response{Status: response.StatusCode, Header: response.Header}
			for name, values := range response.Trailer {
				a.Header[name] = values
			}
			for name, value := range want {
				a.Want(t, http.StatusOK, "", name+": "+value)
			}
			assert.ErrorIf(t, service.calls.Swap(0) != int64(1-call), "%s: call %d has reached the service, or has not", version, call+1)
		}
	}
}

// TestHTTP3_queue has clients leave a queue that have sent a part of a body. They give back what they hold at once.
func TestHTTP3_queue(t *testing.T) {
	t.Parallel()
	n := startVersions(t, "", "redis_ratelimit /queue same 1 24h {\nalgorithm leaky_bucket\nburst 1000\nmax_delay 2400h\n}\nrespond hello")
	url := n.url("HTTP/3.0")
	clients := speakers(t)
	ask(t, clients["HTTP/3.0"], url+"/queue") // the certificate is issued, and the turn of others is tomorrow
	for _, version := range []string{"HTTP/2.0", "HTTP/3.0"} {
		reading, writing := io.Pipe()
		ctx, leave := context.WithCancel(t.Context())
		left := make(chan error, 1)
		go func() {
			request, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/queue", reading)
			if err == nil {
				_, err = clients[version].RoundTrip(request)
			}
			left <- err
		}()
		assert.NoError(io.WriteString(writing, "half"))(t)
		n.CheckMetric(t, "held_requests", 1)
		leave()
		assert.ErrorIf(t, <-left == nil, "%s: the request was answered", version)
		n.CheckMetric(t, "held_requests", 0)
	}
}

// TestHTTP3_reload reloads while requests run for longer than the grace period. Caddy cuts those of HTTP/3, which give
// their places back, and lets others go on.
func TestHTTP3_reload(t *testing.T) {
	t.Parallel()
	upstream := caddytest.NewHolder(t)
	n := startVersions(t, "", onePlace+"reverse_proxy "+upstream.Addr)
	url := n.url("HTTP/3.0")
	clients := speakers(t)
	ask(t, clients["HTTP/2.0"], url+"/quick") // the certificate is issued
	ended := map[string]chan error{"HTTP/2.0": make(chan error, 1), "HTTP/3.0": make(chan error, 1)}
	for version, end := range ended {
		go func() {
			response, err := clients[version].RoundTrip(caddytest.GetRequest(t.Context(), t, url+"/?k="+version))
			if err == nil {
				_, err = io.ReadAll(response.Body)
				_ = response.Body.Close() // it is read
			}
			end <- err
		}()
	}
	upstream.WaitRunning(t, 2)
	n.Reload(t, caddytest.Config("", onePlace+"respond hello"))
	assert.ErrorIf(t, <-ended["HTTP/3.0"] == nil, "the request over HTTP/3 was answered")
	n.CheckMetric(t, `running{policy="places"}`, 1)
	upstream.EndOne()
	assert.Must(t, <-ended["HTTP/2.0"])
	n.CheckMetric(t, `running{policy="places"}`, 0)
}

// TestEarlyData sends requests in early data of HTTP/3, whose sender's address may be forged, and again after the
// handshake. What is refused meanwhile goes past error routes.
func TestEarlyData(t *testing.T) {
	t.Parallel()
	tests := []struct {
		path, limit string // the key, and a block behind it; without a key the block has all
		early       int
		left        int64 // of 9 after the second request; -1: it shows none
	}{
		{"/address", "{client_ip}", http.StatusTooEarly, 8},
		{"/host", "{remote_host} {\non_empty_key skip", http.StatusTooEarly, 8},
		{"/port", "{query.k}:{http.request.remote.port} {\non_empty_key skip", http.StatusTooEarly, 8},
		{"/key", "{query.k}", http.StatusOK, 7},
		{"/skipped", "{header.X-Key} {\non_empty_key skip", http.StatusOK, -1},
		{"/empty", "{header.X-Key}", http.StatusTooEarly, 8},
		{"/exempt", "{query.k} {\nexempt private_ranges", http.StatusTooEarly, -1},
		{"/pretended", "{client_ip} {\ndry_run", http.StatusOK, -1},
		{"/usage", "{client_ip} {\nusage /usage", http.StatusTooEarly, 9},
		{"/turns", " {\nkey everyone\nmax_concurrent 9\nwait 1s by {client_ip}", http.StatusTooEarly, 8},
		{"/turns-by-key", " {\nkey everyone\nmax_concurrent 9\nwait 1s by {query.k}", http.StatusOK, 8},
	}
	var site string
	for _, test := range tests {
		key, options, _ := strings.Cut(test.limit, " {\n")
		if key != "" {
			key += " 9 24h"
		}
		site += "redis_ratelimit " + test.path + " " + key + " {\nname " + test.path[1:] + "\n" + options + "\n}\n"
	}
	// The error routes would answer with a page, and browsers would show it instead of sending the request again.
	n := startVersions(t, "", site+"respond ok\nhandle_errors {\nrespond page 200\n}")
	tickets := &ticketCache{ClientSessionCache: tls.NewLRUClientSessionCache(1), got: make(chan struct{}, 100)}
	ask(t, newEarlySpeaker(t, tickets), n.url("HTTP/3.0")+"/issued")
	for _, test := range tests {
		t.Run(test.path, func(t *testing.T) {
			<-tickets.got
			speaker := newEarlySpeaker(t, tickets)
			url, release := holdAnswers(t, strings.TrimPrefix(n.URL, "http://"))
			early := make(chan caddytest.Response, 1)
			go func() { early <- askEarly(t, speaker, http3.MethodGet0RTT, url+test.path+"?k=k", n) }()
			assert.Retry(t, "the request is answered during the handshake", func() (again bool, seen any) {
				return len(n.Log.Lines(func(l caddytest.LogLine) bool { return strings.Contains(l.Text, `"uri":"`+test.path) })) == 0, "it is not in the access log"
			})
			release()
			body := "ok"
			if test.early == http.StatusTooEarly {
				body = "The TLS handshake is not complete. Send the request again."
			}
			(<-early).Want(t, test.early, body)
			a := askEarly(t, speaker, http.MethodGet, url+test.path+"?k=k", n)
			switch {
			case a.Status != http.StatusOK:
				t.Errorf("after the handshake: got %v", a)
			case test.left >= 0:
				caddytest.CheckQuota(t, a, 9, test.left)
			case caddytest.HasQuota(a):
				t.Errorf("got %v; want no quota", a)
			}
		})
	}
}

// ticketCache tells of the tickets that a server gives, with which another connection may begin with data.
type ticketCache struct {
	tls.ClientSessionCache
	got chan struct{}
}

func (c *ticketCache) Put(key string, session *tls.ClientSessionState) {
	c.ClientSessionCache.Put(key, session)
	if session != nil {
		c.got <- struct{}{}
	}
}

func newEarlySpeaker(t *testing.T, tickets tls.ClientSessionCache) *http3.Transport {
	speaker := &http3.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true, ServerName: "localhost", ClientSessionCache: tickets},
		QUICConfig:      &quic.Config{HandshakeIdleTimeout: time.Minute}, // the test keeps the server's part of a handshake back
	}
	t.Cleanup(func() { _ = speaker.Close() })
	return speaker
}

// askEarly sends a request to the site of a node.
func askEarly(t *testing.T, speaker *http3.Transport, method, url string, n *versionsNode) (a caddytest.Response) {
	request := caddytest.GetRequest(t.Context(), t, url)
	request.Method, request.Host = method, strings.TrimPrefix(n.LocalhostURL(), "http://")
	response, err := speaker.RoundTrip(request)
	if err != nil {
		t.Error(err)
		return a
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Error(err)
	}
	return caddytest.Response{Status: response.StatusCode, Header: response.Header, Body: string(body)}
}

// holdAnswers passes a client's datagrams on to a server, and the server's to the client only after release: until
// then no handshake is complete.
func holdAnswers(t *testing.T, server string) (url string, release func()) {
	t.Helper()
	front := assert.NoError(net.ListenPacket("udp", "127.0.0.1:0"))(t)
	back := assert.NoError(net.Dial("udp", server))(t)
	t.Cleanup(func() {
		_ = front.Close()
		_ = back.Close()
	})
	clients, released := make(chan net.Addr, 1), make(chan struct{})
	go func() {
		datagram := make([]byte, 64<<10)
		for n, client, err := front.ReadFrom(datagram); err == nil; n, client, err = front.ReadFrom(datagram) {
			select {
			case clients <- client:
			default: // it is known
			}
			_, _ = back.Write(datagram[:n])
		}
	}()
	go func() {
		<-released
		client, datagram := <-clients, make([]byte, 64<<10)
		for n, err := back.Read(datagram); err == nil; n, err = back.Read(datagram) {
			_, _ = front.WriteTo(datagram[:n], client)
		}
	}()
	return "https://" + front.LocalAddr().String(), func() { close(released) }
}
