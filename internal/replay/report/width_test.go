package report

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay"
)

// measure opens all tables and tells the frame around the page how wide the page is, and what reaches
// beyond its right edge.
const measure = `<script>addEventListener("load", () => {
	document.querySelectorAll("details").forEach(d => d.open = true);
	const far = [...document.querySelectorAll("body *")].filter(e => !e.closest(".scroll > *, svg *") && e.getBoundingClientRect().right > innerWidth + 0.5);
	parent.postMessage(location.pathname.split("/").pop() + " " + innerWidth + " " + document.documentElement.scrollWidth + " " +
		far.map(e => e.tagName + "." + (e.getAttribute("class") || "") + ": " + e.textContent.slice(0, 40)).join("; "), "*");
});</script></body>`

// frames shows a page in several widths at once, as narrow as no window of a browser gets, and lists what
// the pages tell.
const frames = `<!DOCTYPE html><title>frames</title><script>addEventListener("message", e => {
	document.body.append(Object.assign(document.createElement("p"), {textContent: e.data}));
});</script>`

var widths = []int{320, 360, 621, 1200}

// measured is what pages tell by their names, each in each width: that of the window, that of the page, what is
// beyond.
func measured(t *testing.T, pages map[string]string) []string {
	t.Helper()
	browser, folder, outer := caddytest.Chromium(t), t.TempDir(), frames
	write := func(name, page string) {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(page), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, page := range pages {
		write(name, strings.Replace(withoutPolicy(t, page), "</body>", measure, 1))
		for _, width := range widths {
			outer += fmt.Sprintf(`<iframe src=%q style="width:%dpx;height:4000px;border:0"></iframe>`, name, width)
		}
	}
	write("frames.html", outer)
	got := textsOf(elements(parsed(t, open(t, browser, filepath.Join(folder, "frames.html")).document), "p"))
	if len(got) != len(pages)*len(widths) {
		t.Fatalf("%d of %d pages told their width", len(got), len(pages)*len(widths))
	}
	return got
}

// TestReport_width has one page too wide, to notice that the others are not.
func TestReport_width(t *testing.T) {
	t.Parallel()
	got := measured(t, map[string]string{
		"sample.html":  reportOf(t, sampleResult()),
		"hostile.html": reportOf(t, hostileResult(strings.Join(hostileTexts, ""))),
		"wide.html":    strings.Replace(reportOf(t, &replay.Result{}), "<main>", `<main><div class="wide" style="width:400px">too wide</div>`, 1),
	})
	for _, width := range widths {
		for _, name := range []string{"sample", "hostile"} {
			if want := fmt.Sprintf("%s.html %d %d", name, width, width); !slices.Contains(got, want) {
				t.Errorf("names, widths of the windows, of the pages, and what is beyond: %q, want %s", got, want)
			}
		}
	}
	if !slices.Contains(got, "wide.html 360 416 DIV.wide: too wide") {
		t.Errorf("an element of 400 pixels measures %q", got)
	}
}
