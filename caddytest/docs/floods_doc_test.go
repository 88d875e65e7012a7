package docs

import (
	"net/http"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// TestFloods plays the recipe of docs/floods.md, which has at most 25 lines, with places that are taken: a stranger waits on
// the page and is in, a browser without cookies is in for one page, what is known never sees the page, and neither takes the
// places of the other.
func TestFloods(t *testing.T) {
	t.Parallel()
	files := wholeCaddyfile.FindAllStringSubmatch(caddytest.ReadFile(t, "docs/floods.md"), -1)
	assert.FatalIf(t, len(files) != 1, "docs/floods.md has %d Caddyfiles", len(files))
	recipe := files[0][1]
	lines := strings.Count(recipe, "\n") - 2 // within the site
	assert.ErrorIf(t, lines > 25, "the recipe has %d lines", lines)
	caddytest.CheckCaddyfile(t, recipe, nil)
	onRecipe(t, recipe, func(t *testing.T, e recipeEnv) {
		holder := e.backend.holder
		for range 8 { // strangers' places
			holder.Begin(t, e.Node, "/?hold")
		}
		v := &caddytest.Visitor{Node: e.Node}
		var page caddytest.Response
		assert.Retry(t, "the page is there", func() (again bool, seen any) {
			page = assert.NoError(v.Open("/article", 0))(t)
			return caddytest.StyleSheet(page) == "", page
		})
		page.Want(t, http.StatusServiceUnavailable, caddytest.Any, "Retry-After: 1")
		e.Get(t, "/article").Want(t, http.StatusServiceUnavailable, caddytest.Any)
		e.Get(t, "/style.css").Want(t, http.StatusOK, "h1 {}")
		v.Cookies = nil
		assert.NoError(v.Open("/article", 1))(t).Want(t, http.StatusOK, caddytest.Any)
		once := &caddytest.Visitor{Node: e.Node, Refuses: true}
		assert.NoError(once.Open("/article", 1))(t).Want(t, http.StatusOK, caddytest.Any, "Cache-Control: private")
		pass := "Cookie: rl-pass=" + v.Cookies["rl-pass"]
		for range 20 { // all others
			holder.Begin(t, e.Node, "/?hold", pass)
		}
		a := assert.NoError(v.Open("/article", 0))(t)
		a.Want(t, http.StatusServiceUnavailable, caddytest.Any)
		assert.ErrorIf(t, caddytest.WaitingLink(a) != "", "who has waited is to wait again: %v", a)
		for range 20 {
			e.Get(t, "/feed.xml").Want(t, http.StatusOK, caddytest.Any)
			holder.Begin(t, e.Node, "/feed.xml?hold")
		}
		a = e.Get(t, "/feed.xml", "Accept: text/html")
		a.Want(t, http.StatusTooManyRequests, caddytest.Any)
		assert.ErrorIf(t, caddytest.WaitingLink(a) != "", "a feed got the page: %v", a)
	})
}
