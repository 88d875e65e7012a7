package preflight

import (
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/redis/dial"
)

// TestRun_unknown_permissions asks a server that closes the connection at any command but HELLO.
func TestRun_unknown_permissions(t *testing.T) {
	address := serve(t, func(words []string) string {
		if words[0] != "hello" {
			return ""
		}
		return "*4\r\n" + bulk("version") + bulk("7.0.15") + bulk("role") + bulk("master")
	})
	findings, unasked := Run(t.Context(), Options{Client: dial.Options{Addresses: []string{address}, Timeout: time.Minute}})
	seen := map[string]string{}
	for _, f := range findings {
		seen[f.Check] = f.Result + " " + f.Detail
	}
	for _, check := range []string{"permissions", "admin rights", "overrides", "eviction"} {
		redistest.ErrorIf(t, !strings.HasPrefix(seen[check], "warning unknown: "), "%s: got %q of %v", check, seen[check], findings)
	}
	redistest.ErrorIf(t, !strings.HasPrefix(seen["reachable"], "ok") || !unasked, "got %v, unasked %v", findings, unasked)
}

// TestAskHello_Redis60 asks a server that requires the protocol's version, as Redis 6.0 does.
func TestAskHello_Redis60(t *testing.T) {
	address := serve(t, func(words []string) string {
		if len(words) == 1 { // of HELLO alone
			return "-ERR wrong number of arguments for 'hello' command\r\n"
		}
		return "*2\r\n" + bulk("version") + bulk("6.0.16")
	})
	client, err := dial.New(dial.Options{Addresses: []string{address}, Timeout: time.Minute})
	redistest.Must(t, err)
	t.Cleanup(func() { _ = client.Close() }) // the test is over
	if hello, err := askHello(t.Context(), client); err != nil || hello.version != "6.0.16" {
		t.Errorf("got %+v, %v; want version 6.0.16", hello, err)
	}
}
