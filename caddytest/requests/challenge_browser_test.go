package requests

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// TestChallenge_browser has real browsers wait, with scripts and without, with cookies and without. Their pages are
// counted by the upstream, and the pages that wait by the log. Only a soak has Firefox without scripts or cookies.
func TestChallenge_browser(t *testing.T) {
	t.Parallel()
	for i := range assert.Rounds(5, 8) {
		b := caddytest.Browser{Kind: caddytest.Chromium, Scripts: i&1 == 0, Cookies: i&2 == 0}
		if i >= 4 {
			b.Kind = caddytest.Firefox
		}
		t.Run(fmt.Sprintf("%s/scripts=%t/cookies=%t", b.Kind, b.Scripts, b.Cookies), func(t *testing.T) {
			t.Parallel()
			b.Kind.Find(t)
			var opened, scripted atomic.Int64
			upstream := caddytest.Serve(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/html")
				switch r.URL.RequestURI() {
				case "/dir/page?a=b&c=%41":
					opened.Add(1)
					_, _ = w.Write([]byte(`<title>content</title><script>fetch("/scripted")</script>`))
				case "/scripted":
					scripted.Add(1)
				}
			})
			n := caddytest.Start(t, caddytest.Config("", "log\nredis_ratelimit {\nlimit 1\nwindow 24h\nchallenge 2 50\n}\nreverse_proxy "+upstream))
			n.Get(t, "/used-up")
			b.Open(t, n.URL+"/dir/page?a=b&c=%41")
			assert.Retry(t, "the browser comes through", func() (again bool, seen any) {
				if !b.Cookies {
					return !strings.Contains(n.Log.String(), `"ratelimit_challenge":"no_cookies"`), "no page without cookies"
				}
				return opened.Load() == 0 || b.Scripts && scripted.Load() == 0, []int64{opened.Load(), scripted.Load()}
			})
			if !b.Cookies {
				<-time.After(4 * time.Second) // a loop would go on
			}
			shown := n.Metric(t, `challenges_total{outcome="shown"}`)
			assert.ErrorIf(t, shown != 1 || (opened.Load() > 0) != b.Cookies || !b.Scripts && scripted.Load() > 0,
				"%v pages waited, %d opened, %d scripts ran", shown, opened.Load(), scripted.Load())
		})
	}
}

// TestChallenge_tree has Chromium say what a screen reader finds on both pages: a title, a language, the site's name and one link,
// whose name is the sentence. The bar of the page that waits moves, and its colors are dark where a person wants that.
func TestChallenge_tree(t *testing.T) {
	caddytest.Chromium.Find(t)
	n := caddytest.InProcess(t, challenged)
	n.Get(t, "/")
	waits := n.Get(t, "/", navigation, "Accept-Language: de")
	pages := map[string]caddytest.Response{"/de": waits, "/ar": n.Get(t, "/", navigation, "Accept-Language: ar-EG")}
	assert.Retry(t, "the ticket is good", func() (again bool, seen any) {
		pages["/fr"] = n.Get(t, "/"+caddytest.WaitingLink(waits), navigation, "Accept-Language: fr")
		return pages["/fr"].Status == http.StatusFound, pages["/fr"]
	})
	site := "http://" + caddytest.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		page := pages[r.URL.Path]
		w.Header().Set("Content-Type", page.Header.Get("Content-Type"))
		w.Header().Set("Content-Security-Policy", page.Header.Get("Content-Security-Policy"))
		_, _ = w.Write([]byte(strings.Replace(page.Body, `content="1;`, `content="3000;`, 1))) // it stays until it was read
	})
	tab := caddytest.OpenTab(t)
	for path, sentence := range map[string]string{
		"/de": "Diese Seite öffnet sich gleich von selbst.",
		"/ar": "ستفتح هذه الصفحة من تلقاء نفسها بعد لحظة.",
		"/fr": "Autorisez les cookies, puis ouvrez cette page à nouveau.",
	} {
		tab.Open(t, site+path)
		var tree struct {
			Nodes []struct {
				Ignored    bool
				Role, Name struct{ Value any }
			}
		}
		var found []string // roles and names
		assert.Retry(t, "the page is read", func() (again bool, seen any) {
			tab.Ask(t, "Accessibility.getFullAXTree", nil, &tree)
			found = nil
			for _, node := range tree.Nodes {
				if role := node.Role.Value; !node.Ignored && (role == "RootWebArea" || role == "link" || role == "StaticText" || role == "heading" || role == "image") {
					found = append(found, fmt.Sprintf("%v: %v", role, node.Name.Value))
				}
			}
			return len(found) < 4, found
		})
		want := []string{"RootWebArea: " + sentence, "link: " + sentence, "StaticText: 127.0.0.1", "StaticText: " + sentence} // level by level
		assert.Equal(t, strings.Join(found, "\n"), strings.Join(want, "\n"), "the tree of %s", path)
		assert.Equal(t, "/"+tab.Eval(t, "document.documentElement.lang"), path, "the language")
		looks := map[string]string{"/de": "ltr w", "/ar": "rtl w", "/fr": "ltr none"}[path]
		const bar = `(document.querySelector("i") ? getComputedStyle(document.querySelector("i"), "::after").animationName : "none")`
		assert.Equal(t, tab.Eval(t, `getComputedStyle(document.body).direction + " " + `+bar), looks, "the direction of %s, and its bar", path)
		background := func(scheme string) string {
			tab.Ask(t, "Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, &struct{}{})
			return tab.Eval(t, "getComputedStyle(document.body).backgroundColor")
		}
		assert.Equal(t, background("light")+" "+background("dark"), "rgb(242, 244, 247) rgb(20, 24, 29)", "the colors of %s", path)
	}
}
