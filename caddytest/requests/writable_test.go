package requests

import (
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// TestWritable_warning sends requests as trusted proxies do that append to the header of clients, and as others do. It is told,
// once, where the first address counts and the client has written it.
func TestWritable_warning(t *testing.T) {
	t.Parallel()
	const (
		trusted  = "servers {\ntrusted_proxies static private_ranges\n}"
		strict   = "servers {\ntrusted_proxies static private_ranges\ntrusted_proxies_strict\n}"
		limit    = "redis_ratelimit {client_ip} 1000 24h"
		ordinary = "X-Forwarded-For: 198.51.100.7"
		forged   = "X-Forwarded-For: 203.0.113.66, 198.51.100.7"
		text     = "127.0.0.1 passed on several, of which the first counts. Add trusted_proxies_strict"
	)
	n := caddytest.Start(t, caddytest.Config("", "respond ok"))
	warnings := func() []caddytest.LogLine {
		return n.Log.Lines(func(l caddytest.LogLine) bool {
			return l.Level == "warn" && strings.HasPrefix(l.Message, "requests count by addresses that clients may write")
		})
	}
	for _, test := range []struct {
		name, global, site string
		usual, then        []string
		want               int
	}{
		{"a proxy that appends", trusted, limit, []string{ordinary}, []string{forged}, 1},
		{"haproxy, by a second line", trusted, limit, []string{ordinary}, []string{"X-Forwarded-For: 203.0.113.66", ordinary}, 1},
		{"two handlers", trusted, limit + "\nredis_ratelimit {client_ip} 999 24h {\nname second\n}", []string{ordinary}, []string{forged}, 1},
		{"by a key without addresses", trusted, "redis_ratelimit {header.X-Key} 1000 24h", []string{ordinary}, []string{forged}, 0},
		{"strict", strict, limit, []string{ordinary}, []string{forged}, 0},
		{"a CDN that overwrites", trusted, limit, []string{forged}, []string{forged}, 0},
		{"a proxy that overwrites", trusted, limit, []string{ordinary}, []string{"X-Forwarded-For: 203.0.113.66"}, 0},
		{"by the connection's address", trusted, "redis_ratelimit {remote_host} 1000 24h", []string{ordinary}, []string{forged}, 0},
	} {
		before := len(warnings())
		n.Reload(t, caddytest.Config(test.global, test.site+"\nrespond \""+test.name+"\""))
		n.AwaitReload(t)
		n.GetTimes(t, 120, "/", test.usual...)
		n.GetTimes(t, 2, "/", test.then...)
		got := warnings()[before:]
		assert.ErrorIf(t, len(got) != test.want, "%s: the log has %v, want %d warnings", test.name, got, test.want)
		for _, line := range got {
			assert.ErrorIf(t, !strings.Contains(line.Text, text), "%s: the warning is %s", test.name, line.Text)
			assert.ErrorIf(t, strings.Contains(line.Text, "203.0.113") || strings.Contains(line.Text, "198.51.100"), "an address is in the log: %s", line.Text)
		}
	}
}
