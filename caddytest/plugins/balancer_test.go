package plugins

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// proxied are headers of the PROXY protocol for a client, by the protocol's version.
var proxied = map[string]func(client string) string{
	"1": func(client string) string { return "PROXY TCP4 " + client + " 192.0.2.1 40000 80\r\n" },
	"2": func(client string) string {
		from := netip.MustParseAddr(client).As4()
		const signature, tcp4, to, ports = "\r\n\r\n\x00\r\nQUIT\n", "\x21\x11\x00\x0c", "\xc0\x00\x02\x01", "\x9c\x40\x00\x50"
		return signature + tcp4 + string(from[:]) + to + ports
	},
}

// throughBalancer sends a request behind a header of the PROXY protocol, over TLS if the site has it.
func throughBalancer(t *testing.T, network, address, header string, secure bool) caddytest.Response {
	t.Helper()
	conn := assert.NoError(net.Dial(network, address))(t)
	defer conn.Close() //nolint:errcheck // the answer is read
	assert.Must(t, conn.SetDeadline(time.Now().Add(30*time.Second)))
	_ = assert.NoError(io.WriteString(conn, header))(t)
	if secure {
		conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true, ServerName: "localhost"})
	}
	_ = assert.NoError(io.WriteString(conn, "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"))(t)
	answer := assert.NoError(http.ReadResponse(bufio.NewReader(conn), nil))(t)
	body := assert.NoError(io.ReadAll(answer.Body))(t)
	return caddytest.Response{Status: answer.StatusCode, Header: answer.Header, Body: string(body)}
}

// TestPage_balancers has a balancer in front, over TCP, TLS and a unix socket. One that allow does not name is not believed.
func TestPage_balancers(t *testing.T) {
	t.Parallel()
	authority := redistest.NewAuthority(t)
	certificate, key := authority.Issue(t, "localhost")
	socket := filepath.Join(t.TempDir(), "caddy.sock")
	const allowed = "127.0.0.0/8"
	for name, test := range map[string]struct {
		network, site, allow string
		believed             bool
	}{
		"TCP":               {"tcp", ":{$PORT} {", allowed, true},
		"TLS":               {"tcp", "https://localhost:{$PORT} {\n\ttls " + certificate + " " + key, allowed, true},
		"a unix socket":     {"unix", "http:// {\n\tbind unix/" + socket, allowed, true},
		"another's address": {"tcp", ":{$PORT} {", "10.0.0.0/8", false},
	} {
		text := strings.NewReplacer("{\n\tservers {", "{\n\tadmin {$ADMIN}\n\tgrace_period 1s\n\tauto_https disable_redirects\n\tservers {",
			"\n:8080 {", "\n"+test.site, "allow 10.0.0.0/8", "allow "+test.allow).Replace(sections(t)["TCP balancers"])
		n := caddytest.Start(t, text)
		address := strings.TrimPrefix(n.URL, "http://")
		if test.network == "unix" {
			address = socket
		}
		left := map[string]int64{}
		for _, header := range proxied {
			for _, client := range []string{"203.0.113.7", "203.0.113.8"} {
				a := throughBalancer(t, test.network, address, header(client), name == "TLS")
				if !test.believed {
					client = "127.0.0.1"
				}
				left[client]++
				caddytest.CheckQuota(t, a.Want(t, http.StatusOK, "Hello, "+client+"."), 100, 100-left[client])
			}
		}
		for _, line := range strings.Split(n.Log.String(), "\n") {
			assert.ErrorIf(t, strings.Contains(line, "unix socket have no client address"), "%s: got %s", name, line)
		}
	}
}
