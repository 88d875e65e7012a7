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
	const letters = [...document.querySelectorAll("svg text")].filter(e => {
		const box = e.getBoundingClientRect();
		return box.width > 0 && (box.left < 0 || box.right > innerWidth + 0.5);
	});
	parent.postMessage(innerWidth + " " + document.documentElement.scrollWidth + " " +
		far.concat(letters).map(e => e.tagName + "." + (e.getAttribute("class") || "") + ": " + e.textContent.slice(0, 40)).join("; "), "*");
});</script></body>`

// frames shows a page in several widths at once, as narrow as no window of a browser gets, and lists what
// the pages tell.
const frames = `<!DOCTYPE html><title>frames</title><script>addEventListener("message", e => {
	document.body.append(Object.assign(document.createElement("p"), {textContent: e.data}));
});</script>`

var widths = []int{320, 360, 621, 1200}

// measured is what the pages tell, each its width: that of the window, that of the page, what is beyond.
func measured(t *testing.T, browser, page string) []string {
	t.Helper()
	path := writePage(t, "page.html", strings.Replace(withoutPolicy(t, page), "</body>", measure, 1))
	outer := frames
	for _, width := range widths {
		outer += fmt.Sprintf(`<iframe src="page.html" style="width:%dpx;height:4000px;border:0"></iframe>`, width)
	}
	outerPath := filepath.Join(filepath.Dir(path), "frames.html")
	if err := os.WriteFile(outerPath, []byte(outer), 0o600); err != nil {
		t.Fatal(err)
	}
	got := textsOf(elements(parsed(t, open(t, browser, outerPath).document), "p"))
	if len(got) != len(widths) {
		t.Fatalf("%d of %d pages told their width", len(got), len(widths))
	}
	return got
}

func TestReport_width(t *testing.T) {
	browser := caddytest.Chromium(t)
	for name, r := range map[string]*replay.Result{"sample": sampleResult(), "hostile": hostileResult(strings.Join(hostileTexts, ""))} {
		t.Run(name, func(t *testing.T) {
			got := measured(t, browser, reportOf(t, r))
			for _, width := range widths {
				if want := fmt.Sprintf("%d %d", width, width); !slices.Contains(got, want) {
					t.Errorf("widths of the windows, of the pages, and what is beyond: %q, want %s", got, want)
				}
			}
		})
	}
	t.Run("and this test would notice", func(t *testing.T) {
		wide := strings.Replace(reportOf(t, &replay.Result{}), "<main>", `<main><div class="wide" style="width:400px">too wide</div>`, 1)
		if got := measured(t, browser, wide); !slices.Contains(got, "360 416 DIV.wide: too wide") {
			t.Errorf("an element of 400 pixels measures %q", got)
		}
	})
}
