package requests

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// behindSocket starts a site that listens on a unix socket alone.
func behindSocket(t *testing.T, servers, limit string) *caddytest.Node {
	t.Helper()
	dir, err := os.MkdirTemp("", "s") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s")
	n := caddytest.Start(t, caddytest.ConfigWithSites("servers unix/{$SOCKET} {\n"+servers+"\n}", "http:// {\nbind unix/{$SOCKET}\n"+limit+caddytest.ShowDecision+"\n}\n"), "SOCKET="+socket)
	n.Client.Transport = &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		if strings.HasSuffix(n.Admin, address) {
			return new(net.Dialer).DialContext(ctx, network, address)
		}
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}
	return n
}

// TestUnixSocket_addresses has two clients behind a proxy that connects to Caddy by a unix socket.
func TestUnixSocket_addresses(t *testing.T) {
	t.Parallel()
	const trusted = "trusted_proxies_unix"
	for name, test := range map[string]struct {
		servers, limit string
		header         string
		left           []int64 // of a client, another one, and the first again
		remedy         string  // in the warning; empty: no warning
	}{
		"untrusted":      {"", "redis_ratelimit {client_ip} 9 24h", "X-Forwarded-For", []int64{8, 7, 6}, trusted},
		"trusted":        {trusted, "redis_ratelimit {client_ip} 9 24h", "X-Forwarded-For", []int64{8, 8, 7}, ""},
		"other header":   {trusted, "redis_ratelimit {client_ip} 9 24h", "X-Real-Ip", []int64{8, 7, 6}, "client_ip_headers"},
		"remote host":    {trusted, "redis_ratelimit {remote_host} 9 24h", "X-Forwarded-For", []int64{8, 7, 6}, "{client_ip}"},
		"in place of it": {"", "redis_ratelimit {header.X-Key} 9 24h", "X-Forwarded-For", []int64{8, 7, 6}, trusted},
		"key without it": {"", "redis_ratelimit {header.X-Forwarded-For} 9 24h", "X-Forwarded-For", []int64{8, 8, 7}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			n := behindSocket(t, test.servers, test.limit)
			for i, client := range []string{"192.0.2.1", "192.0.2.2", "192.0.2.1"} {
				caddytest.CheckQuota(t, n.Get(t, "/", test.header+": "+client), 9, test.left[i])
			}
			warnings := n.Log.Lines(func(l caddytest.LogLine) bool {
				return l.Level == "warn" && caddytest.Ours(l) && strings.Contains(l.Message, "unix socket")
			})
			switch {
			case test.remedy == "" && len(warnings) > 0, test.remedy != "" && len(warnings) != 1:
				t.Errorf("the log warns %v", warnings)
			case test.remedy != "" && (!strings.Contains(warnings[0].Message, test.remedy) || strings.Contains(warnings[0].Text, "192.0.2.")):
				t.Errorf("the log warns %v; want %s in it", warnings[0], test.remedy)
			}
		})
	}
}

// TestUnixSocket_skip has on_empty_key skip, with which no client is limited.
func TestUnixSocket_skip(t *testing.T) {
	t.Parallel()
	n := behindSocket(t, "", "redis_ratelimit {client_ip} 1 24h {\non_empty_key skip\n}")
	for range 3 {
		if a := n.Get(t, "/"); a.Status != http.StatusOK || caddytest.HasQuota(a) {
			t.Errorf("got %v", a)
		}
	}
	if warnings := n.Log.Lines(func(l caddytest.LogLine) bool {
		return l.Level == "warn" && strings.Contains(l.Message, "on_empty_key skip")
	}); len(warnings) != 1 {
		t.Errorf("the log warns %v", warnings)
	}
}
