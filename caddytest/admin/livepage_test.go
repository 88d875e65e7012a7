// Package admin drives the live page in a browser.
package admin

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
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

// TestPage follows a node through denials, a ban, an override, an outage, a reload and its end, and then the page's own.
func TestPage(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	global := caddytest.PatientRedis(server)
	n := caddytest.Start(t, caddytest.Config(global, site))
	tab, page := opened(t, n)
	tab.WaitForText(t, "#store", "Redis decides since ")
	tab.WaitForText(t, "#title", "Rate limits of "+assert.NoError(os.Hostname())(t))
	tab.WaitForText(t, "#policies", "login", "2 requests per day", "never met")
	tab.WaitForText(t, "#policies-about", "No other node has answered.")
	tab.WaitForText(t, "#top-about", "no key was denied")
	for range 6 {
		n.Get(t, "/login?k=a")
	}
	tab.WaitForText(t, "#policies .requests .number", "6")
	tab.WaitForText(t, "#policies .denied .number", "4")
	tab.WaitForText(t, "#top", "aloginbanned, ")
	tab.WaitForText(t, "#bans", "59 min", "alogin1 offense")
	tab.WaitForText(t, "#used", "2alogin") // the others were denied

	n.OverrideInRedis(t, `{"policy":"login","key":"b","block":true,"note":"<i>why</i>"}`)
	tab.WaitForText(t, "#overrides", "blockedblogin<i>why</i>")
	n.Get(t, "/login?k=b")
	tab.WaitForText(t, "#top", "bloginblocked")

	server.Kill()
	tab.WaitForText(t, "#store", "Redis does not decide since ", "Handlers do local")
	tab.WaitForText(t, "#warnings", "cannot be read from redis", "error: ")
	tab.WaitForText(t, "#attention", " ago: ", "Overrides cannot be read from Redis.")
	tab.WaitForText(t, "#policies-about", "This node alone: ")
	tab.WaitForText(t, "#policies", "login", "2 requests per day")
	server.Run(t)
	tab.WaitForText(t, "#store", "Redis decides since ")

	n.Reload(t, caddytest.Config(global, strings.Replace(site, "policy never", "policy later", 1)))
	const names = "[...document.querySelectorAll('#policies tbody .policy')].map(h => h.textContent)"
	tab.WaitForValue(t, names, "later,login")
	n.Reload(t, caddytest.Config("", "respond ok"))
	tab.WaitForText(t, "#trouble", "the running configuration has no redis_ratelimit")
	n.Reload(t, caddytest.Config(global, site))
	tab.WaitForValue(t, "document.querySelector('#trouble').hidden", "true")
	tab.WaitForValue(t, names, "login,never")

	n.Stop(t)
	tab.WaitForText(t, "#trouble", "no Caddy answers at the admin address")
	tab.WaitForText(t, "#policies", "login", "2 requests per day")
	assert.Equal(t, page.Stop(t), 0, "the exit code after Ctrl-C")
	tab.WaitForText(t, "#trouble", "The command that serves this page does not answer.")
}

// TestPage_points waits until a policy has its first point, in both of two tabs that know nothing of one another, and until these
// have the sum of two nodes. Then the other node leaves.
func TestPage_points(t *testing.T) {
	t.Parallel()
	text := caddytest.Config(caddytest.SharedRedis(t), site)
	n, other := caddytest.Start(t, text), caddytest.Start(t, text)
	first, _ := opened(t, n)
	second, _ := opened(t, n)
	n.GetTimes(t, 5, "/login?k=a")
	other.GetTimes(t, 4, "/login?k=b")
	const label = "document.querySelector('#policies %s svg')?.getAttribute('aria-label')?.replace(/,.*/, '')"
	for _, tab := range []*caddytest.Tab{first, second} {
		tab.WaitForValue(t, fmt.Sprintf(label, ".requests"), "requests: 5 in 10 min")
		tab.WaitForValue(t, fmt.Sprintf(label, ".denied"), "denied: 3 in 10 min")
		tab.WaitForText(t, "#policies .group + .group", "2 of 2 nodes, 10 min")
		tab.WaitForText(t, "#policies tbody .all-requests", "9")
		tab.WaitForText(t, "#policies tbody .all-denied", "5")
	}
	other.Stop(t)
	first.WaitForText(t, "#policies .group + .group", "1 of 2 nodes, 10 min")
	first.WaitForText(t, "#attention", "1 node of 2 did not answer.")
}

// markup is a key that would do something if a page took it for HTML, and something else in a shell that is not careful.
const markup = `<img src=x onerror="document.title='run'"> 'a' $(id) \ ` + "`id` \u202e\x00"

// TestPage_keys shows keys of any bytes as text, in commands that a shell takes as they are. The keys pass through vars, whose
// values are not examined.
func TestPage_keys(t *testing.T) {
	t.Parallel()
	n := caddytest.Start(t, caddytest.Config("", "vars k {query.k}\n"+strings.Replace(site, "{query.k}", "{vars.k}", 1)))
	tab, _ := opened(t, n)
	for _, key := range []string{markup, "-x", "--all"} {
		for range 3 {
			n.Get(t, "/login?k="+url.QueryEscape(key))
		}
	}
	tab.WaitForText(t, "#top", `<img src=x onerror="document.title='run'"> 'a' $(id) \\ `+"`id` "+`\xe2\x80\xae\x00`, "-xlogin", "--alllogin")
	assert.Equal(t, tab.Eval(t, "document.title+document.images.length"), "Rate limits of "+assert.NoError(os.Hostname())(t)+"0", "the title and the pictures")
	commands := strings.Split(tab.Eval(t, `[...document.querySelectorAll("#top .command")].map(c => c.textContent + "\n").join("")`), "Copy\n")
	assert.Equal(t, len(commands), 10, "commands, three for each key, and what follows the last")
	for _, line := range commands[:9] {
		_, command, _ := strings.Cut(line, ":")
		shell := exec.Command("sh", "-c", strings.Replace(command, "caddy", `"$CADDY"`, 1))
		shell.Env = caddytest.Environment(t, "CADDY="+caddytest.Binary(t))
		output, err := shell.CombinedOutput()
		assert.ErrorIf(t, err != nil, "%s: %v\n%s", line, err, output)
	}
	overrides := caddytest.ParseJSON[struct {
		Overrides []struct{ Key string }
	}](t, n.Ask(t, http.MethodGet, "overrides", ""))
	assert.Equal(t, len(overrides.Overrides), 3, "keys that the commands have blocked")
	tab.WaitForText(t, "#overrides", `$(id) \\`)
}

// TestPage_browsers follows browsers that may wait on a node, and whom its reserve refuses.
func TestPage_browsers(t *testing.T) {
	t.Parallel()
	n := caddytest.Start(t, caddytest.Config("", "redis_ratelimit {\nname busy\nkey everyone\nlimit 9\nwindow 24h\nreserve 8\nchallenge\n}\nrespond ok"))
	tab, _ := opened(t, n)
	tab.WaitForText(t, "#browsers", "0 pages shown to strangers, 0 passed.")
	v := &caddytest.Visitor{Node: n}
	for range 2 {
		_, err := v.Open("/", 1)
		assert.Must(t, err)
	}
	n.Get(t, "/")
	tab.WaitForText(t, "#browsers", "1 page shown to strangers, 1 passed.")
	tab.WaitForText(t, "#policies", "2 requests refused by the reserve")
	n.Ratelimit(t, "policies").Want(t, 0, ", 2 denied\n", "by the reserve\n")
}
