package requests

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// canary is part of every hostile key, to find log lines with a key.
const canary = "canary"

// hostileKeys are keys of different clients, built to collide with one another or with other Redis keys.
func hostileKeys() []string {
	keys := []string{
		"", "{", "}", "{}", "}{", "{a}", "a{b}c", "}:default:c1d", "\x00", "\x00\x00", "\n", "\r\n", "\r\nSELECT 1\r\n",
		"%", "%%", "%25", "%7B", "%7b", "%(", "%)", "%~", "%~0123", "%ip:127.0.0.1", "\xff", "\xff\xfe", "\xc3\x28", "\xc3",
		"\ufffd", "é", "e\u0301", "{env.HOME}", "{http.request.host}", "{http.vars.client_ip}", "\\{", "*", "?", "[a]", "'", `"`, "|", " ", "  ", "\t",
		"-1", "nil", "-inf", "redis.call('flushall')", "]] redis.call('flushall') --", "../..", "a:b:c",
	}
	for _, length := range []int{121, 122, 123, 127, 128, 129, 5000} {
		keys = append(keys, strings.Repeat("x", length), strings.Repeat("{", length))
	}
	for i, key := range keys {
		keys[i] = canary + key
	}
	return append(keys, "%~"+canary, "%ip:127.0.0.1"+canary, "{"+canary+"}", "\x00"+canary)
}

// TestHostile_keys has keys of any bytes, which a variable holds as they were sent: each is another client. What a parameter
// is read as may be another one's, or no text.
func TestHostile_keys(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for source, global := range map[string]string{"memory": "", "redis": caddytest.PatientRedis(server)} {
		t.Run(source, func(t *testing.T) {
			n := caddytest.Start(t, caddytest.Config(global, `vars sent {query.k}
			redis_ratelimit /sent {vars.sent} 1 24h
			redis_ratelimit /read {query.k} 1 24h { name read }`+caddytest.ShowDecision))
			keys := hostileKeys()
			for _, want := range []string{"allowed ", "denied "} {
				for _, key := range keys {
					n.Get(t, "/sent?k="+url.QueryEscape(key)).Want(t, 0, want+source)
				}
			}
			if source == "redis" {
				checkNamesAreWhole(t, server, len(keys))
			}
			for _, key := range keys {
				n.Get(t, "/read?k="+url.QueryEscape(key))
				n.Get(t, "/read?k="+url.QueryEscape(key)).Want(t, http.StatusTooManyRequests, "denied *")
			}
			checkNoKeyIsLogged(t, n)
		})
	}
}

// checkNoKeyIsLogged checks the lines of this module. Caddy's own lines quote the request.
func checkNoKeyIsLogged(t *testing.T, n *caddytest.Node) {
	t.Helper()
	checkNotLogged(t, n, canary)
	assert.ErrorIf(t, len(n.Log.Lines(caddytest.Ours)) == 0, "nothing is logged at all, not even denials at DEBUG")
}

func checkNotLogged(t *testing.T, n *caddytest.Node, text string) {
	t.Helper()
	lines := n.Log.Lines(func(l caddytest.LogLine) bool { return caddytest.Ours(l) && strings.Contains(l.Text, text) })
	assert.ErrorIf(t, len(lines) > 0, "%q is logged: %v", text, lines)
}

// checkNamesAreWhole checks that each client has one Redis key, with one pair of braces.
func checkNamesAreWhole(t *testing.T, server *redistest.Server, clients int) {
	t.Helper()
	names, err := server.Client(t).Keys(t.Context(), "*").Result()
	names = slices.DeleteFunc(names, func(name string) bool { return name == "rl:{%!overrides}:marker" })
	assert.ErrorIf(t, err != nil || len(names) != clients, "there are %d keys in Redis, error %v; want %d", len(names), err, clients)
	whole := regexp.MustCompile(`^rl:\{[^{}]{1,128}\}:default:c1d$`)
	for _, name := range names {
		assert.ErrorIf(t, !whole.MatchString(name), "a key is called %q", name)
	}
}

func TestForwardedAddress_trustedProxies(t *testing.T) {
	t.Parallel()
	for trusted, want := range map[string]int{"": http.StatusTooManyRequests, "servers {\ntrusted_proxies static 127.0.0.0/8\n}": http.StatusOK} {
		t.Run(fmt.Sprintf("trusted=%t", trusted != ""), func(t *testing.T) {
			n := caddytest.Start(t, caddytest.Config(trusted, "redis_ratelimit {client_ip} 1 24h"+caddytest.ShowDecision))
			n.Get(t, "/", "X-Forwarded-For: 192.0.2.1").Want(t, http.StatusOK, "allowed memory")
			for _, spoofed := range []string{"192.0.2.2", "192.0.2.3", "2001:db8::1", "2001:db8:0:1::1"} {
				n.Get(t, "/", "X-Forwarded-For: "+spoofed).Want(t, want, caddytest.Any)
			}
			n.Get(t, "/", "X-Forwarded-For: 192.0.2.1").Want(t, http.StatusTooManyRequests, caddytest.Any)
		})
	}
}

// behindSocket starts a site that listens on a unix socket alone.
func behindSocket(t *testing.T, servers, limit string) *caddytest.Node {
	t.Helper()
	dir, err := os.MkdirTemp("", "s") // a socket's path is short
	assert.Must(t, err)
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
		n.Get(t, "/").WantFree(t)
	}
	warnings := n.Log.Lines(func(l caddytest.LogLine) bool {
		return l.Level == "warn" && strings.Contains(l.Message, "on_empty_key skip")
	})
	assert.Equal(t, len(warnings), 1, "the number of warnings")
}
