package docs

import (
	"net/http"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/crawlers"
)

// crawlersPage is the page about crawlers.
const crawlersPage = "docs/crawlers.md"

// TestCrawlersDoc_recipe plays the page's Caddyfile with a true crawler, a liar, a monitor and people behind the same address.
func TestCrawlersDoc_recipe(t *testing.T) {
	t.Parallel()
	whole := wholeCaddyfile.FindStringSubmatch(caddytest.ReadFile(t, crawlersPage))
	assert.FatalIf(t, whole == nil, "the page has no Caddyfile")
	server := caddytest.StartDNS(t, caddytest.DNSNames(map[string]string{
		"66.249.66.1": "crawl-66-249-66-1.googlebot.com", "203.0.113.6": "dsl-6.isp.example", "198.51.100.1": "probe.monitor.example.net",
	}))
	inner := "\t\tcrawlers google bing {\n"
	assert.FatalIf(t, strings.Count(whole[1], inner) != 1, "the Caddyfile has no one block crawlers")
	caddyfile := strings.Replace(whole[1], inner, inner+"resolver "+server.Addr+"\nwait 2s\n", 1)
	caddyfile = strings.Replace(caddyfile, "{\n", "{\nservers {\ntrusted_proxies static 127.0.0.1/32\n}\n", 1)
	onRecipe(t, caddyfile, func(t *testing.T, e recipeEnv) {
		from := func(address, agent string) []string {
			return []string{"X-Forwarded-For: " + address, "User-Agent: " + agent, "Accept: text/html", "Sec-Fetch-Mode: navigate"}
		}
		const google, browser = "Mozilla/5.0 (compatible; Googlebot/2.1)", "Mozilla/5.0 Firefox/145.0"
		for address, agent := range map[string]string{"66.249.66.1": google, "198.51.100.1": "OurMonitor/2", "203.0.113.6": google} {
			e.AwaitCrawler(t, address, agent)
		}
		for range 70 { // above the limit of people
			e.Get(t, "/", from("66.249.66.1", google)...).Want(t, http.StatusOK, "Hello.")
		}
		for range 70 {
			e.Get(t, "/", from("198.51.100.1", "OurMonitor/2")...).WantFree(t)
		}
		for range 5 {
			e.Get(t, "/", from("203.0.113.6", google)...).Want(t, http.StatusOK, "Hello.")
		}
		e.Get(t, "/robots.txt", from("203.0.113.6", google)...).WantFree(t)
		banned := e.Get(t, "/", from("203.0.113.6", google)...)
		assert.Equal(t, banned.Status, http.StatusTooManyRequests, "the status of a liar's sixth request")
		e.Get(t, "/", from("203.0.113.6", browser)...).Want(t, http.StatusOK, "Hello.")
	})
}

// TestCrawlersDoc_table holds the page's table to the one that ships.
func TestCrawlersDoc_table(t *testing.T) {
	t.Parallel()
	rows := map[string]string{}
	for line := range strings.Lines(caddytest.ReadFile(t, crawlersPage)) {
		if name, rest, found := strings.Cut(strings.TrimPrefix(line, "| `"), "` | "); found && !strings.HasPrefix(name, "{") && strings.HasPrefix(line, "| `") {
			rows[name] = rest
		}
	}
	names := crawlers.ShippedNames(true)
	assert.Equal(t, len(rows), len(names), "the rows of the table")
	for _, name := range names {
		s, _ := crawlers.ShippedAs(name)
		suffixes := strings.Join(s.Suffixes, ", ")
		if suffixes == "" {
			suffixes = "–"
		}
		want := strings.Join(s.Words, ", ") + " | " + suffixes + " | "
		assert.ErrorIf(t, !strings.HasPrefix(rows[name], want), "the row of %s is %q, want %q", name, rows[name], want)
	}
}
