package replay

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/display"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay/accesslog"
)

// visit is what a browser made of a page: its document, what its console said, and what the page asked
// the network for.
type visit struct {
	document       string
	console, asked []string
}

// open shows a file to a headless browser. Its proxy is a port without a listener, so that nothing
// leaves the machine, not even what the browser itself asks its maker for.
func open(t *testing.T, file string, flags ...string) visit {
	t.Helper()
	netLog := filepath.Join(t.TempDir(), "net.json")
	command := exec.CommandContext(t.Context(), caddytest.Chromium.Find(t), append(flags,
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
		"--disable-background-networking", "--user-data-dir="+t.TempDir(), "--hide-scrollbars", "--window-size=1400,900",
		"--proxy-server=http://127.0.0.1:9", "--proxy-bypass-list=<-loopback>", "--log-net-log="+netLog,
		"--enable-logging=stderr", "--v=0", "--virtual-time-budget=3000", "--dump-dom", "file://"+file)...)
	var document, messages bytes.Buffer
	command.Stdout, command.Stderr = &document, &messages
	err := command.Run()
	assert.FatalIf(t, err != nil, "%v\n%s", err, messages.String())
	v := visit{document: document.String(), asked: askedFor(t, netLog)}
	for line := range strings.Lines(messages.String()) {
		if strings.Contains(line, ":CONSOLE") {
			v.console = append(v.console, strings.TrimSpace(line))
		}
	}
	return v
}

// askedFor reads a browser's log of the network: the addresses that a page asked for. What the browser
// asks for by itself, such as its updates, has no page as its initiator.
func askedFor(t *testing.T, netLog string) []string {
	t.Helper()
	text := assert.NoError(os.ReadFile(netLog))(t)
	var log struct {
		Events []struct{ Params json.RawMessage }
	}
	if err := json.Unmarshal(text, &log); err != nil || len(log.Events) == 0 {
		t.Fatalf("%d events in the browser's log of the network: %v", len(log.Events), err)
	}
	var asked []string
	for _, event := range log.Events {
		var request struct{ Initiator, URL string }
		if json.Unmarshal(event.Params, &request) != nil || request.URL == "" || request.Initiator == "" || request.Initiator == "not an origin" {
			continue
		}
		asked = append(asked, request.URL)
	}
	return asked
}

// framed shows pages in frames as narrow as a phone, and returns what the browser made of each: its document, then its
// width and the elements that end beyond it. Only what a page scrolls by itself may.
func framed(t *testing.T, pages []string) (all visit, documents, widths []string) {
	t.Helper()
	folder, frames := t.TempDir(), "<!DOCTYPE html><title>frames</title>"
	for i, page := range pages {
		name := strconv.Itoa(i) + ".html"
		assert.Must(t, os.WriteFile(filepath.Join(folder, name), []byte(page), 0o600))
		frames += `<iframe src="` + name + `" style="width:360px;height:4000px;border:0"></iframe>`
	}
	frames += `<script>addEventListener("load", () => document.querySelectorAll("iframe").forEach(f => {
	const page = f.contentDocument, add = text => document.body.append(Object.assign(document.createElement("pre"), {textContent: text}));
	add(page.documentElement.outerHTML);
	page.querySelectorAll("details").forEach(d => d.open = true);
	const far = [...page.querySelectorAll("body *")].filter(e => !e.closest(".scroll > *") && e.getBoundingClientRect().right > f.contentWindow.innerWidth + 0.5);
	add([page.documentElement.scrollWidth, ...far.map(e => e.tagName)].join(" "));
}))</script>`
	outer := filepath.Join(folder, "frames.html")
	assert.Must(t, os.WriteFile(outer, []byte(frames), 0o600))
	all = open(t, outer, "--allow-file-access-from-files")
	found := elements(parsed(t, all.document), "pre")
	assert.FatalIf(t, len(found) != 2*len(pages), "the browser shows %d texts of %d pages", len(found), len(pages))
	for i := range pages {
		documents, widths = append(documents, found[2*i].FirstChild.Data), append(widths, found[2*i+1].FirstChild.Data)
	}
	return all, documents, widths
}

func TestReport_browser(t *testing.T) {
	t.Parallel()
	pages := []string{reportOf(t, sampleResult()), reportOf(t, hostileResult(strings.Join(hostileTexts, ""))), reportOf(t, &Result{})}
	tooWide := strings.Replace(pages[0], "<main>", `<main><div style="width:400px">too wide</div>`, 1) // noticed by this test
	v, documents, widths := framed(t, append(pages, withoutPolicy(t, tooWide)))
	assert.ErrorIf(t, len(v.console) > 0 || len(v.asked) > 0, "the console says %q, the network was asked for %q", v.console, v.asked)
	assert.Equal(t, strings.Join(widths, "\n"), "360\n360\n360\n416 DIV", "the widths, and what is beyond")
	for i, page := range pages {
		got, want := parsed(t, documents[i]), parsed(t, page)
		if !slices.Equal(textsOf(elements(got, "h1", "h2", "h3", "h4")), textsOf(elements(want, "h1", "h2", "h3", "h4"))) {
			t.Errorf("page %d: headings are %q", i, textsOf(elements(got, "h1", "h2", "h3", "h4")))
		}
		assert.Equal(t, len(elements(got, "svg")), len(elements(want, "svg")), "the number of drawings")
	}
}

// Markup that had slipped through the template would meet the page's own policy. Without that policy the
// same markup loads and runs, so that the test above would notice it.
func TestReport_security_policy(t *testing.T) {
	t.Parallel()
	page := strings.Replace(reportOf(t, sampleResult()), "</header>",
		`</header><img src="http://192.0.2.1/picture"><script>console.log("ran");document.title="ran"</script>`, 1)

	v := open(t, writePage(t, "slipped.html", page))
	assert.ErrorIf(t, len(v.asked) > 0 || strings.Contains(v.document, "<title>ran") || len(v.console) == 0,
		"with the policy the network was asked for %q, the console says %q", v.asked, v.console)
	v = open(t, writePage(t, "open.html", withoutPolicy(t, page)))
	assert.ErrorIf(t, !slices.Contains(v.asked, "http://192.0.2.1/picture") || !strings.Contains(v.document, "<title>ran"),
		"without the policy the network was asked for %q, the console says %q: this test sees nothing", v.asked, v.console)
}

func writePage(t *testing.T, name, page string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	assert.Must(t, os.WriteFile(path, []byte(page), 0o600))
	return path
}

// withoutPolicy lets a test's own script run in the page.
func withoutPolicy(t *testing.T, page string) string {
	t.Helper()
	before, rest, found := strings.Cut(page, `<meta http-equiv="Content-Security-Policy"`)
	_, after, closed := strings.Cut(rest, ">")
	assert.FatalIf(t, !found || !closed, "the page has no policy")
	return before + after
}

// hostileTexts is what strangers would like to see in a report.
var hostileTexts = []string{
	`<script>alert(1)</script>`,
	`"><img src=x onerror=alert(1)>`,
	`' onmouseover='alert(1)`,
	`javascript:alert(1)`,
	`</title></style></svg><svg onload=alert(1)>`,
	`<!-- --><base href=http://192.0.2.1/><meta http-equiv=refresh content="0;url=http://192.0.2.1/">`,
	`{{.}} ${7*7} ]]> &lt;b&gt;`,
	"\x1b[31mred\x1b[0m\a\x00\x7f\r\n",
	"\u202egnp.exe\u2066\u200b\ufeff",
	"\xff\xfe\xc0\xaf",
	strings.Repeat("W", 4_000),
}

// hostileResult has a hostile text wherever text from outside can be.
func hostileResult(text string) *Result {
	r := sampleResult()
	for i := range r.Policies {
		p := &r.Policies[i]
		p.Name, p.Algorithm, p.LimitFrom, p.BurstFrom = text, text, text, text
		p.Handlers = []display.Handler{{Key: text, Match: text, CountIf: text, Cost: text, WeightFrom: text, Place: text}}
		for j := range p.Worst {
			p.Worst[j].Key = text
		}
	}
	r.Suggestions.Policy, r.Suggestions.Key, r.Suggestions.NotTried = text, text, []string{text}
	for i := range r.Suggestions.Ladders {
		r.Suggestions.Ladders[i].Algorithm = text
	}
	for i := range r.Log.Files {
		f := &r.Log.Files[i]
		f.Name, f.Format, f.Error = text, text, text
	}
	for i := range r.Log.MalformedExamples {
		r.Log.MalformedExamples[i] = accesslog.Skipped{Where: text, Reason: text, Text: text}
	}
	r.Warnings, r.Skipped = []string{text}, []string{text}
	return r
}

// skeleton is the page without its texts: elements and the attributes that can do something.
func skeleton(root *html.Node) []string {
	var bones []string
	for _, n := range elements(root) {
		bone := n.Data
		for _, a := range n.Attr {
			bone += " " + a.Key
		}
		bones = append(bones, bone)
	}
	return bones
}

func TestWrite_hostile_text(t *testing.T) {
	want := skeleton(parsed(t, reportOf(t, hostileResult("harmless"))))
	for _, text := range hostileTexts {
		t.Run(sayName(text)[:5], func(t *testing.T) {
			page := reportOf(t, hostileResult(text))
			if i := strings.IndexFunc(page, invisible); i >= 0 {
				t.Errorf("%q stands in the page as it is", page[i:i+4])
			}
			root := parsed(t, page)
			if got := skeleton(root); !slices.Equal(got, want) {
				t.Errorf("the text changed the elements of the page: %d, want %d", len(got), len(want))
			}
			for _, n := range elements(root) {
				assertHarmless(t, n)
			}
			if page := textOf(root); !strings.Contains(page, strings.Join(strings.Fields(sayName(text)), " ")) {
				t.Error("the text is not on the page")
			}
		})
	}
}

// assertHarmless allows an element to show something, and to lead to another place of the page.
func assertHarmless(t *testing.T, n *html.Node) {
	t.Helper()
	assert.ErrorIf(t, slices.Contains([]string{"script", "img", "base", "iframe", "object", "embed", "link", "form"}, n.Data),
		"a %s", n.Data)
	for _, a := range n.Attr {
		key := strings.ToLower(a.Key)
		if strings.HasPrefix(key, "on") || key == "style" || key == "src" || key == "href" && !strings.HasPrefix(a.Val, "#") {
			t.Errorf("%s has %s=%q", n.Data, a.Key, a.Val)
		}
	}
}

func invisible(r rune) bool {
	return r < ' ' && r != '\n' && r != '\t' || r == 0x7f || strings.ContainsRune("\u202e\u2066\u200b\ufeff\ufffd", r)
}
