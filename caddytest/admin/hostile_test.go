package admin

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// hostilePage tries in each way that scripts have to read a page of another origin, whose address follows. It tells what it
// has read.
const hostilePage = `<!DOCTYPE html><title>hostile</title><script>
const load = (name, attributes) => new Promise(done => {
	const e = Object.assign(document.createElement(name), attributes);
	e.onload = () => done("loaded");
	e.onerror = () => done("error");
	document.documentElement.append(e);
	setTimeout(() => done("waited"), 3000);
});
const tried = what => what.then(text => text, e => "refused");
const tries = async origin => (await Promise.all([
	tried(fetch(origin + "/data", {credentials: "include"}).then(r => r.text())),
	tried(fetch(origin + "/data", {credentials: "include", headers: {"Page-Key": "0"}}).then(r => r.text())),
	tried(fetch(origin + "/", {credentials: "include", mode: "no-cors"}).then(r => r.text()).then(text => "text " + text)),
	tried(fetch(origin + "/data", {method: "POST", credentials: "include", mode: "no-cors"}).then(r => r.text()).then(text => "text " + text)),
	load("script", {src: origin + "/data"}),
	load("link", {rel: "stylesheet", href: origin + "/"}),
	load("img", {src: origin + "/"}),
	load("iframe", {src: origin + "/"}).then(() => {
		try { return "frame " + document.querySelector("iframe").contentWindow.document.body.textContent; } catch { return "refused"; }
	}),
])).join(", ");
</script>`

// hostileServer serves that page on another port, and keeps the cookies that it gets.
func hostileServer(t *testing.T) (address string, cookies func() string) {
	t.Helper()
	var mu sync.Mutex
	got := ""
	address = caddytest.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if c := r.Header.Get("Cookie"); c != "" {
			got = c
		}
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte(hostilePage))
	})
	return address, func() string {
		mu.Lock()
		defer mu.Unlock()
		return got
	}
}

// TestPage_hostile has pages of another port, which get the cookie along, and of another site try to read the page.
func TestPage_hostile(t *testing.T) {
	t.Parallel()
	n := caddytest.Start(t, caddytest.Config("", site))
	tab, page := opened(t, n)
	tab.WaitForText(t, "#policies", "login")
	key := strings.TrimPrefix(tab.Eval(t, "location.hash"), "#")
	address, cookies := hostileServer(t)
	for _, from := range []string{address, strings.Replace(address, "127.0.0.1", "localhost", 1)} {
		tab.Open(t, "http://"+from+"/")
		tab.WaitForText(t, "title", "hostile")
		assert.Equal(t, tab.Eval(t, "tries("+`"`+page.Origin+`")`), "refused, refused, refused, refused, error, error, error, refused",
			"what a page of %s reads", from)
	}

	// What a server on another port gets along is not enough.
	stolen := cookies()
	assert.FatalIf(t, !strings.Contains(stolen, "redis_ratelimit_page_"), "the server gets the cookies %q", stolen)
	a := n.Send(t, http.MethodGet, page.Origin+"/data", "", "Cookie: "+stolen)
	assert.ErrorIf(t, a.Status != http.StatusForbidden || strings.Contains(a.Body, "login"), "with the cookie alone: %v", a)
	a = n.Send(t, http.MethodGet, page.Origin+"/", "", "Cookie: "+stolen)
	assert.ErrorIf(t, strings.Contains(a.Body, key) || strings.Contains(a.Body, "login"), "the page tells more than its form: %v", a)
	a = n.Send(t, http.MethodGet, page.Origin+"/data", "", "Page-Key: "+key)
	assert.Equal(t, a.Status, http.StatusForbidden, "the status with the key alone")
	a = n.Send(t, http.MethodGet, page.Origin+"/data", "", "Cookie: "+stolen, "Page-Key: "+key)
	assert.ErrorIf(t, a.Status != http.StatusOK || !strings.Contains(a.Body, "login"), "with both, by which this test sees something: %v", a)
}
