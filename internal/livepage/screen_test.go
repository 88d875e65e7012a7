package livepage

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/adminapi"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// openSample opens a document in a browser.
func openSample(t *testing.T, document func() *Document, width int) *caddytest.Tab {
	t.Helper()
	tab := caddytest.OpenTab(t)
	setScreen(t, tab, width, "light")
	tab.Open(t, serveSample(t, document))
	tab.WaitForText(t, "#warnings", "redis cannot decide")
	return tab
}

// beyond are the elements that end beyond the screen, and how wide the page is.
const beyond = `(document.querySelectorAll("button[aria-expanded=false]").forEach(b => b.click()), [document.documentElement.scrollWidth,
	...[...document.querySelectorAll("body *")].filter(e => e.getBoundingClientRect().right > innerWidth + 0.5).map(e => e.tagName)].join(" "))`

// TestPage_narrow shows the sample, with long keys, on the narrowest screen.
func TestPage_narrow(t *testing.T) {
	t.Parallel()
	d := sample(t)
	key := strings.Repeat("W", 128)
	d.Sections[2].Value = encoded(t, adminapi.PageTop{Keys: []adminapi.PageKey{{Policy: key, Key: key, Denied: 1, Why: adminapi.WhyLimit}}})
	d.Sections[3].Value = encoded(t, adminapi.PageUsed{Keys: []adminapi.UsedEntry{{Policy: key, Key: key, Used: 1 << 53, Error: 1 << 53}}})
	d.Policies[0].About = encoded(t, adminapi.PagePolicy{Sentence: key, Options: []adminapi.PageOption{{Name: key, Value: key}}, Handlers: []string{key}, More: 7})
	tab := openSample(t, func() *Document { return d }, 320)
	assert.Equal(t, tab.Eval(t, beyond), "320", "the width of the page, and what is beyond")
	assert.Equal(t, tab.Eval(t, `(document.body.append(Object.assign(document.createElement("hr"), {width: 400})), `+beyond+")"), "412 HR",
		"the same with an element that is too wide, which this test notices")
}

// TestPage_tree has the browser say what a screen reader finds.
func TestPage_tree(t *testing.T) {
	t.Parallel()
	d := sample(t)
	tab := openSample(t, func() *Document { return d }, 840)
	for _, width := range []int{1280, 840} { // with rows of tables, and with rows of blocks
		setScreen(t, tab, width, "light")
		checkTree(t, tab)
	}
}

// checkTree compares what a screen reader finds in the sample.
func checkTree(t *testing.T, tab *caddytest.Tab) {
	t.Helper()
	var tree struct {
		Nodes []struct {
			Ignored    bool
			Role, Name struct{ Value any }
		}
	}
	tab.Ask(t, "Accessibility.getFullAXTree", nil, &tree)
	found := map[string]int{}
	for _, node := range tree.Nodes {
		if !node.Ignored {
			found[fmt.Sprintf("%v: %v", node.Role.Value, node.Name.Value)]++
		}
		assert.ErrorIf(t, !node.Ignored && node.Role.Value == "image" && node.Name.Value == "", "a picture without a name")
	}
	for _, want := range []string{
		"RootWebArea: Rate limits of web-1", "heading: Rate limits of web-1", "region: Store", "region: Attention", "region: Policies",
		"region: Most denied keys", "region: Most used keys", "region: Bans", "region: Overrides", "region: Last warnings", "table: Policies",
		"table: Most denied keys", "table: Most used keys", "table: Bans", "table: Overrides", "table: Last warnings", "rowheader: api",
		"columnheader: Limit", "columnheader: This node", "columnheader: 2 of 2 nodes, 10 min", "columnheader: Units", "searchbox: Names with",
		"combobox: Order", "button: Options and handlers of api", "button: Commands for acme",
		"image: requests: 1,504 in 10 min, 25 in the last step", "image: running: max 2 in 10 min, 2 in the last step",
	} {
		assert.ErrorIf(t, found[want] != 1, "%d times %q in %v", found[want], want, found)
	}
	assert.Equal(t, tab.Eval(t, "document.documentElement.lang+document.getAnimations().length"), "en0", "the language, and what moves")
}

// press presses a key of the keyboard.
func press(t *testing.T, tab *caddytest.Tab, key, text string) {
	t.Helper()
	for _, kind := range []string{"keyDown", "keyUp"} {
		tab.Ask(t, "Input.dispatchKeyEvent", map[string]any{"type": kind, "key": key, "code": key, "text": text, "windowsVirtualKeyCode": map[string]int{"Tab": 9, "Enter": 13}[key]}, &struct{}{})
	}
}

// TestPage_keyboard opens commands by the keyboard, and keeps the focus and what is open over new answers, which change the
// order of the keys.
func TestPage_keyboard(t *testing.T) {
	t.Parallel()
	var turn atomic.Int64
	document := func() *Document {
		d := sample(t)
		n := turn.Add(1)
		keys := []adminapi.PageKey{{Policy: "api", Key: "other", Denied: 5 + n%2*10, Why: adminapi.WhyLimit}, {Policy: "api", Key: "it's", Denied: 10, Why: adminapi.WhyLimit}}
		if n%2 == 0 {
			keys[0], keys[1] = keys[1], keys[0]
		}
		keys = append(keys, adminapi.PageKey{Policy: "api", Key: strconv.FormatInt(n, 10), Denied: 1, Why: adminapi.WhyRunning})
		d.Sections[2].Value = encoded(t, adminapi.PageTop{Keys: keys})
		return d
	}
	tab := openSample(t, document, 840)
	const focused = `document.activeElement.closest("tbody")?.querySelector("code").textContent + " " + document.activeElement.tagName`
	for range 30 {
		if press(t, tab, "Tab", ""); tab.Eval(t, focused) == "it's BUTTON" {
			break
		}
	}
	press(t, tab, "Enter", "\r")
	press(t, tab, "Tab", "")
	assert.Equal(t, tab.Eval(t, focused), "it's BUTTON", "the focus")
	begin := turn.Load()
	assert.Retry(t, "three more answers", func() (again bool, seen any) { return turn.Load() < begin+3, turn.Load() })
	assert.Equal(t, tab.Eval(t, focused), "it's BUTTON", "the focus after three answers")
	assert.Equal(t, tab.Eval(t, `document.activeElement.closest("tbody").querySelector("button").ariaExpanded`), "true", "what is open")
	assert.Equal(t, tab.Eval(t, `document.activeElement.previousSibling.textContent`), `caddy redis-ratelimit state --policy api --key 'it'\''s'`, "the command")
	press(t, tab, "Enter", "\r")
	assert.Retry(t, "the command is copied or selected", func() (again bool, seen any) {
		text := tab.Eval(t, `document.querySelector("#copied").textContent`)
		return !strings.HasPrefix(text, "Copied.") && !strings.HasPrefix(text, "The browser does not allow it"), text
	})
}

// TestPage_many shows the first of 2,000 policies, others by a part of their name, and all in another order.
func TestPage_many(t *testing.T) {
	t.Parallel()
	d := sample(t)
	points := d.Points
	_, of := points(0)
	of["many1999"] = of["api"]
	for i := range 2000 {
		d.Policies = append(d.Policies, Row{
			Name: fmt.Sprintf("many%04d", i), About: json.RawMessage(`{"sentence":"s"}`), Counts: json.RawMessage(`{"met":1,"denied":0,"would_be_denied":0}`),
		})
	}
	tab := openSample(t, func() *Document { return d }, 840)
	const names = `[...document.querySelectorAll("#policies tbody .policy")].map(h => h.textContent)`
	input := func(id, value string) {
		tab.Eval(t, fmt.Sprintf(`(document.querySelector(%q).value = %q, document.querySelector(%q).dispatchEvent(new Event("input")))`, id, value, id))
	}
	tab.WaitForText(t, "#policies-more", "The first 100 of 2,004 policies")
	assert.Equal(t, tab.Eval(t, names+".length"), "100", "rows")
	input("#filter", "zzz")
	assert.Equal(t, tab.Eval(t, names+".length")+tab.Eval(t, `document.querySelector("#policies-more").textContent`), "0No name has this text.", "rows")
	input("#filter", "any199")
	assert.Equal(t, tab.Eval(t, names), "many1990,many1991,many1992,many1993,many1994,many1995,many1996,many1997,many1998,many1999", "the names")
	input("#order", "requests")
	assert.Equal(t, tab.Eval(t, names+"[0]"), "many1999", "the policy with the most requests")
}

// TestPage_used shows the most used keys, if the document has some: a node whose policies take long has them later.
func TestPage_used(t *testing.T) {
	t.Parallel()
	d := sample(t)
	tab := openSample(t, func() *Document { return d }, 840)
	tab.WaitForText(t, "#used-section:not([hidden])", "Most used keys", "Units on this node", "48,640 ±3,541203.0.113.7api", "212acmegpu", "--key 203.0.113.7")
	without := sample(t)
	without.Sections = slices.DeleteFunc(without.Sections, func(s Section) bool { return s.Name == "used" })
	tab = openSample(t, func() *Document { return without }, 840)
	assert.Equal(t, tab.Eval(t, `getComputedStyle(document.getElementById("used-section")).display`), "none", "the section of a document without it")
}

// TestPage_browsers shows what became of browsers that may wait, if some may, and whom a reserve has refused.
func TestPage_browsers(t *testing.T) {
	t.Parallel()
	d := sample(t)
	tab := openSample(t, func() *Document { return d }, 840)
	tab.WaitForText(t, "#store", "Redis decides")
	assert.Equal(t, tab.Eval(t, `getComputedStyle(document.getElementById("browsers")).display`), "none", "the line of a document without browsers")
	d = sample(t)
	d.Sections = append(d.Sections, Section{Name: "browsers", Value: encoded(t, adminapi.PageBrowsers{Shown: 1200, Passed: 48, Cookieless: 3})})
	d.Policies[0].Counts = encoded(t, adminapi.PageCounts{CountsReport: adminapi.CountsReport{Met: 9000, Denied: 7000, ReserveDenied: new(int64(6500))}})
	tab = openSample(t, func() *Document { return d }, 840)
	tab.WaitForText(t, "#browsers", "Browsers that wait: 1,200 pages shown to strangers, 48 passed, 3 went on for one page.")
	tab.WaitForText(t, "#policies", "6,500 requests refused by the reserve")
}

// TestPage_crawlers shows how many requests have claimed crawlers, where a configuration knows some.
func TestPage_crawlers(t *testing.T) {
	t.Parallel()
	d := sample(t)
	tab := openSample(t, func() *Document { return d }, 840)
	tab.WaitForText(t, "#store", "Redis decides")
	assert.Equal(t, tab.Eval(t, `getComputedStyle(document.getElementById("crawlers")).display`), "none", "the line of a document without crawlers")
	d = sample(t)
	d.Sections = append(d.Sections, Section{Name: "crawlers", Value: encoded(t, []adminapi.PageCrawler{{Name: "google", Verified: 1200, Forged: 7}, {Name: "bing"}})})
	tab = openSample(t, func() *Document { return d }, 840)
	tab.WaitForText(t, "#crawlers", "Requests that claim crawlers: google 1,200 verified, 7 forged, 0 unknown.")
}

// TestPage_everywhere shows blocks for all policies, with commands that name no policy, and offers them for addresses alone.
func TestPage_everywhere(t *testing.T) {
	t.Parallel()
	d := sample(t)
	d.Sections[2].Value = encoded(t, adminapi.PageTop{Keys: []adminapi.PageKey{
		{Policy: "api", Key: "2001:db8:7::/64", Denied: 3, Why: adminapi.WhyLimit}, {Policy: "api", Key: "acme", Denied: 2, Why: adminapi.WhyLimit},
		{Policy: "api", Key: "%ip:192.0.2.9", Denied: 1, Why: adminapi.WhyBlocked, Override: &adminapi.OverrideEntry{Range: "192.0.2.0/24", Block: true}},
	}})
	d.Sections[5].Value = encoded(t, adminapi.PageOverrides{Total: 2, Overrides: []adminapi.OverrideEntry{
		{Range: "192.0.2.0/24", Block: true}, {Key: new("203.0.113.7"), Block: true},
	}})
	tab := openSample(t, func() *Document { return d }, 840)
	const commands = `[...document.querySelectorAll("%s .command code")].map(c => c.textContent).filter(c => !c.includes("--policy")).join("; ")`
	assert.Equal(t, tab.Eval(t, fmt.Sprintf(commands, "#overrides")),
		"caddy redis-ratelimit override --range 192.0.2.0/24 --remove; caddy redis-ratelimit override --key 203.0.113.7 --remove", "what removes blocks")
	assert.Equal(t, tab.Eval(t, fmt.Sprintf(commands, "#top")), "caddy redis-ratelimit override --key 2001:db8:7::/64 --block --for 1h; "+
		"caddy redis-ratelimit override --range 192.0.2.0/24 --remove; caddy redis-ratelimit override --key %ip:192.0.2.9 --block --for 1h", "what blocks addresses")
	assert.Equal(t, tab.Eval(t, fmt.Sprintf(commands, "#bans")), "caddy redis-ratelimit override --key 198.51.100.66 --block --for 1h", "what blocks the banned")
	tab.WaitForText(t, "#overrides", "blocked192.0.2.0/24all", "blocked203.0.113.7all")
}
