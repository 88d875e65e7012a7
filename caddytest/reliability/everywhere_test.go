package reliability

import (
	"net/http"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// severalSites covers three paths with policies of other keys, of which one exempts the client that the tests block.
const severalSites = `route /address* { redis_ratelimit { policy address { key {client_ip}; limit 5000; window 24h } } }
	route /header* { redis_ratelimit { policy header { key {header.X-Key}; limit 5000; window 24h; on_empty_key reject } } }
	route /exempt* { redis_ratelimit { exempt 203.0.113.0/24; policy exempt { key {path}; limit 5000; window 24h } } }` + caddytest.ShowDecision

// refusedAt returns at how many of the three paths a client is refused by an override.
func refusedAt(t *testing.T, n *caddytest.Node, address string) (refused int) {
	t.Helper()
	for _, path := range []string{"/address", "/header", "/exempt"} {
		if a := n.Get(t, path, "X-Key: vip", "X-Forwarded-For: "+address); a.Body == "denied override" && a.Status == http.StatusTooManyRequests {
			refused++
		}
	}
	return refused
}

// waitRefused waits until a client is refused at so many paths.
func waitRefused(t *testing.T, n *caddytest.Node, address string, want int) {
	t.Helper()
	assert.Retry(t, "refusals of "+address, func() (again bool, seen any) {
		got := refusedAt(t, n, address)
		return got != want, got
	})
}

// severalConfig is of a node on a Redis, behind a proxy on this machine that names the clients.
func severalConfig(address, options string) string {
	return caddytest.Config(caddytest.RedisAt(address, options)+"\nservers {\ntrusted_proxies static 127.0.0.0/8\n}", severalSites)
}

// TestEverywhere_twoNodes blocks a client on one node: the other refuses it at all policies within a second, and lets it in again.
func TestEverywhere_twoNodes(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]string{"plain": "timeout 10s", "hashed": "timeout 10s\nhash_keys secret"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			a, b := caddytest.Start(t, severalConfig(server.Addr, options)), caddytest.Start(t, severalConfig(server.Addr, options))
			for _, fields := range []string{`"key":"203.0.113.7"`, `"range":"203.0.113.0/28"`} {
				assert.Retry(t, "the block reaches the other node in time", func() (again bool, seen any) { // again on a busy machine
					a.Override(t, 200, `{`+fields+`,"block":true,"for":"2h"}`)
					began := time.Now()
					waitRefused(t, b, "203.0.113.7", 3)
					took := time.Since(began)
					assert.Equal(t, refusedAt(t, a, "203.0.113.7"), 3, "refusals of the node itself")
					assert.Equal(t, refusedAt(t, b, "203.0.113.77"), 0, "refusals of another client")
					b.Override(t, 200, `{`+fields+`,"remove":true}`)
					assert.Equal(t, refusedAt(t, b, "203.0.113.7"), 0, "refusals after the block was removed")
					waitRefused(t, a, "203.0.113.7", 0)
					return took > time.Second+10*caddytest.Slack, took
				})
			}
		})
	}
}

// TestEverywhere_outage sets a block while Redis is away: it holds on that node alone, over a reload, until Redis is back. One
// that was set before goes on.
func TestEverywhere_outage(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr)
	a, b := caddytest.Start(t, severalConfig(proxy.Addr, "timeout 10s")), caddytest.Start(t, severalConfig(proxy.Addr, "timeout 10s"))
	a.Override(t, 200, `{"key":"203.0.113.7","block":true}`)
	waitRefused(t, b, "203.0.113.7", 3)
	proxy.Part()
	assert.Retry(t, "Redis is away", func() (again bool, seen any) {
		got := a.Get(t, "/address", "X-Forwarded-For: 198.51.100.7")
		return got.Body != "allowed fallback", got
	})
	a.Ratelimit(t, "override", "--key", "198.51.100.7", "--block").Want(t, 0, "override    block on this node alone\n", "Hint: redis is away: this holds on this node alone")
	a.Override(t, 200, `{"key":"192.0.2.7","block":true}`)
	a.Ratelimit(t, "override", "--key", "192.0.2.7", "--remove").Want(t, 0, "override removed on this node alone\n")
	a.Override(t, 503, `{"key":"203.0.113.7","remove":true}`)
	a.Reload(t, severalConfig(proxy.Addr, "timeout 9s"))
	for _, n := range []*caddytest.Node{a, b} {
		assert.Equal(t, refusedAt(t, n, "203.0.113.7"), 3, "refusals of a client that was blocked before")
		assert.Equal(t, refusedAt(t, n, "192.0.2.7"), 0, "refusals of a client whose block was removed")
	}
	assert.Equal(t, refusedAt(t, a, "198.51.100.7"), 3, "refusals of the node that was asked")
	assert.Equal(t, refusedAt(t, b, "198.51.100.7"), 0, "refusals of the other node")
	proxy.Join()
	waitRefused(t, a, "198.51.100.7", 0)
	assert.Equal(t, refusedAt(t, a, "203.0.113.7"), 3, "refusals by the block in Redis")
	fields := server.Client(t).HKeys(t.Context(), "rl:{%!overrides}:entries").Val()
	assert.ErrorIf(t, len(fields) != 1 || fields[0] != "/203.0.113.7/32", "in Redis is %q", fields)
}

// TestEverywhere_waiting blocks the client of requests that wait for a place, whose key is not its address.
func TestEverywhere_waiting(t *testing.T) {
	caddytest.OnBothStores(t, func(t *testing.T, option, _ string) {
		upstream := caddytest.NewHolder(t)
		n := caddytest.Start(t, caddytest.Config(option+"\nservers {\ntrusted_proxies static 127.0.0.0/8\n}", waitingSite(1, upstream.Addr)))
		upstream.Begin(t, n, "/")
		bad := beginWaiting(t, n, 2, "/", "X-Forwarded-For: 203.0.113.7")
		good := beginWaiting(t, n, 1, "/", "X-Forwarded-For: 203.0.113.8")
		n.Override(t, 200, `{"key":"203.0.113.7","block":true,"for":"2h"}`)
		for _, a := range bad() {
			a.Want(t, http.StatusTooManyRequests, "denied override")
			assert.ErrorIf(t, a.Header.Get("Retry-After") == "", "no Retry-After of the end")
		}
		n.CheckMetric(t, "held_requests", 1)
		n.CheckMetric(t, "blocked_total", 2)
		n.Get(t, "/now", "X-Forwarded-For: 203.0.113.7").Want(t, http.StatusTooManyRequests, "denied override")
		upstream.EndAll()
		wantAll(t, good())
	})
}
