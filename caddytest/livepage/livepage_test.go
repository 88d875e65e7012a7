// Package livepage drives the live page in a browser.
package livepage

import (
	"net/url"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

const site = `redis_ratelimit {
		policy login { key {query.k}; match path /login; limit 2; window 24h; ban 1h after 3 }
		policy never { match path /nowhere; limit 3; window 1m }
	}
	respond ok`

// opened starts a page of a node, and opens it in a browser.
func opened(t *testing.T, n *caddytest.Node) (*caddytest.Tab, *caddytest.LivePage) {
	t.Helper()
	tab := caddytest.OpenTab(t)
	page := caddytest.StartPage(t, strings.TrimPrefix(n.Admin, "http://"))
	tab.Open(t, page.URL)
	return tab, page
}

// TestPage follows a node through denials, a ban, an outage, a reload and its end.
func TestPage(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	n := caddytest.Start(t, caddytest.Config("redis_ratelimit {\nredis redis://"+server.Addr+"\n}", site))
	tab, _ := opened(t, n)
	tab.WaitForText(t, "#store", "Redis decides since ")
	tab.WaitForText(t, "#policies", "login", "2 requests per day", "never met")
	tab.WaitForText(t, "#top-about", "no key was denied")
	for range 6 {
		n.Get(t, "/login?k=a")
	}
	tab.WaitForText(t, "#policies", "6", "denied4")
	tab.WaitForText(t, "#top", "a of login", "banned, for ")
	tab.WaitForText(t, "#bans", "59 min", "a of login", "1 offense")
}

// markup is a key that would do something if a page took it for HTML, and something else in a shell that is not careful.
const markup = `<img src=x onerror="document.title='run'"> 'a' $(id) \ ` + "`id` \u202e\x00"

// TestPage_keys shows keys of any bytes as text, in commands that a shell takes as they are.
func TestPage_keys(t *testing.T) {
	t.Parallel()
	n := caddytest.Start(t, caddytest.Config("", site))
	tab, _ := opened(t, n)
	for range 3 {
		n.Get(t, "/login?k="+url.QueryEscape(markup))
	}
	tab.WaitForText(t, "#top", `<img src=x onerror="document.title='run'"> 'a' $(id) \\ `+"`id` "+`\xe2\x80\xae\x00`)
	assert.Equal(t, tab.Eval(t, "document.title+document.images.length"), "Rate limits0", "the title and the pictures")
}
