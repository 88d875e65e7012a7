package livepage

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/adminapi"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storepool"
)

// with replaces a section of a document, or adds it.
func with(t *testing.T, d *Document, name string, value any) {
	t.Helper()
	d.Sections = slices.DeleteFunc(d.Sections, func(s Section) bool { return s.Name == name })
	d.Sections = append(d.Sections, Section{Name: name, Value: encoded(t, value)})
}

// busy is a document with 6 policies and 36 keys of 39 characters, as many as it gets.
func busy(t *testing.T) *Document {
	t.Helper()
	d := sample(t)
	for _, name := range []string{"search", "uploads"} {
		d.Policies = append(d.Policies, Row{name, d.Policies[0].About, d.Policies[0].Counts})
	}
	key := func(i int) string { return fmt.Sprintf("2001:0db8:0000:0000:0000:0000:0000:%04x", i) }
	var top adminapi.PageTop
	var used adminapi.PageUsed
	bans := adminapi.PageBans{Complete: true, Total: 8}
	top.Begin, used.About = noon.Add(-7*time.Minute), "Units on this node in the last five to ten minutes, denied or not."
	for i := range 20 {
		why := []adminapi.Why{adminapi.WhyBanned, adminapi.WhyRunning, adminapi.WhyLimit, adminapi.WhyBlocked}[i%4]
		k := adminapi.PageKey{Policy: "uploads", Key: key(i), Denied: int64(1000 - i), Why: why}
		if why == adminapi.WhyBanned {
			k.Until = new(noon.Add(14*time.Minute + 48*time.Second))
		}
		top.Keys = append(top.Keys, k)
	}
	for i := 20; i < 28; i++ {
		used.Keys = append(used.Keys, adminapi.UsedEntry{Policy: "uploads", Key: key(i), Used: int64(48_640 - i), Error: 3_541})
		bans.Bans = append(bans.Bans, adminapi.PageBan{Policy: "login", Key: key(i + 8), Until: noon.Add(time.Hour), Offenses: 2})
	}
	with(t, d, "top", top)
	with(t, d, "used", used)
	with(t, d, "bans", bans)
	return d
}

// TestPage_oneScreen shows all keys and policies of a busy node at once, without scrolling; with more, parts scroll, not the page.
func TestPage_oneScreen(t *testing.T) {
	t.Parallel()
	d := busy(t)
	tab := openSample(t, func() *Document { return d }, 1280)
	const higher = `document.scrollingElement.scrollHeight <= innerHeight`
	assert.Equal(t, tab.Eval(t, higher), "true", "the page fits the screen")
	assert.Equal(t, tab.Eval(t, `[...document.querySelectorAll(".panel")].filter(p => p.scrollHeight > p.clientHeight || p.scrollWidth > p.clientWidth).map(p => p.innerText)`),
		"", "parts that scroll")
	assert.Equal(t, tab.Eval(t, `[...document.querySelectorAll("tbody .key code")].filter(c => c.getClientRects().length === 1 && c.getBoundingClientRect().bottom <= innerHeight).length`),
		"37", "keys on one line each that can be seen, with that of the override")
	assert.Equal(t, tab.Eval(t, `document.querySelectorAll("tbody .policy").length`), "6", "policies")
	for i := range 60 {
		d.Policies = append(d.Policies, Row{fmt.Sprintf("many%02d", i), d.Policies[0].About, d.Policies[0].Counts})
	}
	var warnings adminapi.PageWarnings
	for i := range 50 {
		warnings = append(warnings, adminapi.Warning{Last: noon, Times: 1, Text: fmt.Sprint(i, strings.Repeat(" warning", 100))})
	}
	with(t, d, "warnings", warnings)
	tab.WaitForText(t, "#policies", "many59")
	tab.WaitForText(t, "#attention", "and 47 more warnings in the last hour, below.")
	assert.Equal(t, tab.Eval(t, higher), "true", "the page fits the screen with more")
	assert.Equal(t, tab.Eval(t, `[...document.querySelectorAll(".panel")].filter(p => p.clientHeight < 60).length`), "0", "parts that nothing can be seen of")
	d.Policies = nil
	tab.WaitForText(t, "#policies-more", "There are no policies.")
	assert.Equal(t, tab.Eval(t, higher), "true", "the page fits the screen without policies")
}

// TestPage_hostile shows keys of 4,000 characters, of right-to-left marks and of markup, which change nothing but their own cells.
func TestPage_hostile(t *testing.T) {
	t.Parallel()
	d := busy(t)
	hostile := []string{strings.Repeat("W", 4000), "\u202e\u2067\u200fevil", `"><img src=x onerror="document.title='run'">`, `'; $(id) "`}
	var top adminapi.PageTop
	for _, key := range hostile {
		top.Keys = append(top.Keys, adminapi.PageKey{Policy: "api", Key: key, Denied: 5, Why: adminapi.WhyLimit})
	}
	with(t, d, "top", top)
	tab := openSample(t, func() *Document { return d }, 1280)
	assert.Equal(t, tab.Eval(t, `[...document.querySelectorAll("#top tbody code")].map(c => c.textContent).filter(text => !text.startsWith("caddy ")).join("\n")`),
		strings.Join(hostile, "\n"), "the keys")
	assert.Equal(t, tab.Eval(t, `document.title + document.images.length`), "Rate limits of web-10", "the title and the pictures")
	assert.Equal(t, tab.Eval(t, `document.scrollingElement.scrollHeight <= innerHeight && document.scrollingElement.scrollWidth <= innerWidth`), "true", "the page fits")
	setScreen(t, tab, 320, "light")
	assert.Equal(t, tab.Eval(t, beyond), "320", "the width of the page on a phone, and what is beyond")
}

// TestPage_zone has the browser's zone with UTC beside it, also where that has another day, and UTC alone in UTC.
func TestPage_zone(t *testing.T) {
	t.Parallel()
	d := sample(t)
	tab := caddytest.OpenTab(t)
	setScreen(t, tab, 1280, "light")
	address := serveSample(t, func() *Document { return d })
	tab.Ask(t, "Emulation.setTimezoneOverride", map[string]any{"timezoneId": "Pacific/Auckland"}, &struct{}{})
	tab.Open(t, address)
	tab.WaitForText(t, "#time", "2026-11-23 01:00:00 GMT+13, 12:00:00 UTC")
	tab.WaitForText(t, "#store", "Redis decides since 2026-11-21 22:48:00 (09:48:00 UTC).")
	tab.WaitForText(t, "#top-about", "On this node since 00:53:00 (2026-11-22 11:53:00 UTC).")
	tab.Ask(t, "Emulation.setTimezoneOverride", map[string]any{"timezoneId": "UTC"}, &struct{}{})
	d.At = noon.Add(time.Second)
	tab.WaitForValue(t, `document.querySelector("#time").textContent`, "2026-11-22 12:00:01 UTC")
}

// TestPage_attention puts first what needs attention, and says so where nothing does.
func TestPage_attention(t *testing.T) {
	t.Parallel()
	d := sample(t)
	tab := openSample(t, func() *Document { return d }, 1280)
	const lines = `[...document.querySelectorAll("#attention li")].map(l => l.textContent).join("\n")`
	tab.WaitForValue(t, lines, "Bans rise: 1 began on this node in the last five minutes, 0 in the five before.")
	assert.ErrorIf(t, tab.Eval(t, `document.querySelector("main section h2").textContent + document.querySelectorAll("main section h2")[1].textContent`) != "StoreAttention",
		"other parts are first")
	with(t, d, "nodes", adminapi.PageNodes{Answered: 2, Known: 3, Sums: map[string]adminapi.PageLately{}})
	with(t, d, "overrides", adminapi.PageOverrides{Stale: true, Overrides: []adminapi.OverrideEntry{}})
	with(t, d, "warnings", adminapi.PageWarnings{{Last: noon.Add(-3 * time.Minute), Times: 2, Text: "redis cannot decide"}})
	tab.WaitForValue(t, lines, "Bans rise: 1 began on this node in the last five minutes, 0 in the five before.\nOverrides cannot be read from Redis.\n"+
		"1 node of 3 did not answer.\n3 min ago: redis cannot decide")
	tab.WaitForText(t, "#policies", "2 of 3 nodes, 10 min")
	quiet := sample(t)
	points := quiet.Points
	quiet.Points = func(behind int64) (int64, map[string][]storepool.Point) {
		latest, of := points(behind)
		delete(of, "login")
		return latest, of
	}
	with(t, quiet, "nodes", adminapi.PageNodes{Answered: 1, Known: 1, Alone: "no redis is configured", Sums: map[string]adminapi.PageLately{}})
	tab = openSample(t, func() *Document { return quiet }, 1280)
	tab.WaitForValue(t, lines, "Nothing needs attention: no warning in the last hour.")
	tab.WaitForText(t, "#policies-about", "This node alone: no redis is configured.")
	assert.Equal(t, tab.Eval(t, `getComputedStyle(document.querySelector("#policies .all-requests")).display`), "none", "the sums of one node")
}

// TestPage_hours shows a page for some thousand answers, each with another set of keys: what it keeps does not grow.
func TestPage_hours(t *testing.T) {
	t.Parallel()
	d := busy(t)
	tab := openSample(t, func() *Document { return d }, 1280)
	const many = `(() => { for (let i = 0; i < %d; i++) { page.top = {...page.top, keys: page.top.keys.map((k, at) => ({...k, key: "k" + i + "." + at}))};
		page.at = new Date(Date.parse(page.at) + 1000).toISOString(); showAll(); } return document.querySelectorAll("*").length; })()`
	before := tab.Eval(t, fmt.Sprintf(many, 10))
	assert.Equal(t, tab.Eval(t, fmt.Sprintf(many, 500)), before, "elements after 500 answers")
	assert.Equal(t, tab.Eval(t, `byID("top").kept.size`), "20", "rows that are kept")
}
