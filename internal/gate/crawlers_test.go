package gate

import (
	"context"
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/crawlers"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
)

// openCrawlers identifies a crawler by ranges.
func openCrawlers(t *testing.T) *Crawlers {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ranges")
	assert.Must(t, os.WriteFile(path, []byte("52.230.152.0/24"), 0o600))
	file := assert.NoError(crawlers.OpenFile(path))(t)
	set := crawlers.NewSet([]*crawlers.Crawler{{Name: "openai", Words: []string{"GPTBot"}, Ranges: []*crawlers.File{file}}}, nil, 0, func() {})
	return &Crawlers{Set: set, Shows: true, Count: func(crawlers.Identity, netip.Addr) {}}
}

// crawlerRequest is a request from a connection, whose address is the client's, unless headers name another one.
func crawlerRequest(connection, agent string, headers ...string) (*http.Request, *caddy.Replacer) {
	r := httptest.NewRequest(http.MethodGet, "http://a.example/", nil)
	r.RemoteAddr = connection + ":1234"
	r.Header.Set("User-Agent", agent)
	for _, address := range headers {
		r.Header.Add("X-Forwarded-For", address)
	}
	repl := caddy.NewEmptyReplacer()
	ctx := context.WithValue(r.Context(), caddyhttp.VarsCtxKey, map[string]any{caddyhttp.ClientIPVarKey: connection})
	return r.WithContext(context.WithValue(ctx, caddy.ReplacerCtxKey, repl)), repl
}

// statusAfter identifies the sender of a request, and returns the placeholder of the status.
func statusAfter(c *Crawlers, r *http.Request, repl *caddy.Replacer) any {
	c.Identify(r, repl)
	status, found := repl.Get(rule.CrawlerStatus)
	if !found {
		return "no placeholder"
	}
	return status
}

// TestCrawlers_unbelieved has no claim be forged while each comes through a proxy that the server does not trust: true crawlers
// are behind it.
func TestCrawlers_unbelieved(t *testing.T) {
	c := openCrawlers(t)
	const proxy, crawler = "203.0.113.80", "52.230.152.9"
	ask := func(connection string, forwarded ...string) any {
		r, repl := crawlerRequest(connection, "GPTBot/1.2", forwarded...)
		return statusAfter(c, r, repl)
	}
	assert.Equal[any](t, ask(proxy, crawler), "unknown", "through a proxy that is not trusted")
	assert.Equal[any](t, ask(proxy, "10.0.0.1"), "forged", "with a private address in the header, which names no client")
	assert.Equal[any](t, ask(proxy, crawler), "forged", "through the proxy, once a claim came without")
	assert.Equal[any](t, ask(crawler), "verified", "from the crawler itself")
}

// TestCrawlers_once settles who sent a request for all handlers of the request, and counts it once.
func TestCrawlers_once(t *testing.T) {
	c, counted := openCrawlers(t), 0
	c.Count = func(crawlers.Identity, netip.Addr) { counted++ }
	r, repl := crawlerRequest("52.230.152.9", "GPTBot/1.2")
	for range 2 {
		assert.Equal(t, c.Identify(r, repl).Crawler(), "openai", "the crawler")
	}
	assert.Equal(t, counted, 1, "requests that are counted")
	r, repl = crawlerRequest("52.230.152.9", "GPTBot/1.2")
	assert.Equal(t, c.IdentifyOffline(r, repl).Crawler(), "openai", "the crawler in a log")
	assert.Equal(t, counted, 1, "requests of clients")
}

// TestCrawlers_claimNothing has no claim by browsers, in early data, and without an address.
func TestCrawlers_claimNothing(t *testing.T) {
	c := openCrawlers(t)
	early, repl := crawlerRequest("52.230.152.9", "GPTBot/1.2")
	early.TLS = new(tls.ConnectionState)
	assert.Equal[any](t, statusAfter(c, early, repl), "", "in early data")
	r, repl := crawlerRequest("52.230.152.9", "Mozilla/5.0 Firefox/145.0")
	assert.Equal[any](t, statusAfter(c, r, repl), "", "of a browser")
	r, repl = crawlerRequest("@", "GPTBot/1.2")
	assert.Equal[any](t, statusAfter(c, r, repl), "", "over a unix socket")
	for _, name := range []string{rule.CrawlerName, rule.CrawlerClaim, rule.CrawlerStatus} {
		value, found := repl.Get(name)
		assert.ErrorIf(t, !found || value != "", "%s is %v", name, value)
	}
}
