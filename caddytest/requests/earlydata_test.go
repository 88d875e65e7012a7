package requests

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/quic-go/quic-go/http3"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// TestEarlyData sends requests in early data of HTTP/3, whose sender's address may be forged, and again after the
// handshake.
func TestEarlyData(t *testing.T) {
	t.Parallel()
	tests := []struct {
		path, limit string
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
	}
	site := "https://localhost:{$PORT} {\ntls internal\nlog\n"
	for _, test := range tests {
		key, options, _ := strings.Cut(test.limit, " {\n")
		site += "redis_ratelimit " + test.path + " " + key + " 9 24h {\nname " + test.path[1:] + "\n" + options + "\n}\n"
	}
	text := caddytest.ConfigWithSites("skip_install_trust", site+"respond ok\n}\n")
	n := caddytest.Start(t, strings.Replace(text, "auto_https off", "auto_https disable_redirects", 1))
	tickets := &ticketCache{ClientSessionCache: tls.NewLRUClientSessionCache(1), got: make(chan struct{}, 100)}
	ask(t, newEarlySpeaker(t, tickets), strings.Replace(n.LocalhostURL(), "http:", "https:", 1)+"/issued")
	for _, test := range tests {
		t.Run(test.path, func(t *testing.T) {
			<-tickets.got
			speaker := newEarlySpeaker(t, tickets)
			url, release := holdAnswers(t, strings.TrimPrefix(n.URL, "http://"))
			early := make(chan caddytest.Response, 1)
			go func() { early <- askEarly(t, speaker, http3.MethodGet0RTT, url+test.path+"?k=k", n) }()
			redistest.Retry(t, "the request is answered during the handshake", func() (again bool, seen any) {
				return len(n.Log.Lines(func(l caddytest.LogLine) bool { return strings.Contains(l.Text, `"uri":"`+test.path) })) == 0, "it is not in the access log"
			})
			release()
			redistest.Equal(t, (<-early).Status, test.early, "in early data: the status")
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
	speaker := &http3.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, ServerName: "localhost", ClientSessionCache: tickets}}
	t.Cleanup(func() { _ = speaker.Close() })
	return speaker
}

// askEarly sends a request to the site of a node.
func askEarly(t *testing.T, speaker *http3.Transport, method, url string, n *caddytest.Node) (a caddytest.Response) {
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
	front, err := net.ListenPacket("udp", "127.0.0.1:0")
	redistest.Must(t, err)
	back, err := net.Dial("udp", server)
	redistest.Must(t, err)
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
