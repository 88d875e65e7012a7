package docs

import (
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

var (
	fencedCode   = regexp.MustCompile("(?s)\n *```.*?\n *```\n")
	inlineCode   = regexp.MustCompile("`[^`\n]*`")
	headingLine  = regexp.MustCompile(`(?m)^#+ (.+)$`)
	namedAnchor  = regexp.MustCompile(`<a id="([^"]+)">`)
	linkTarget   = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	linkText     = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	notInAnchors = regexp.MustCompile(`[^\w -]`)
)

// anchor returns the anchor that GitHub makes of a heading.
func anchor(heading string) string {
	heading = linkText.ReplaceAllString(heading, "$1")
	return strings.ReplaceAll(strings.ToLower(notInAnchors.ReplaceAllString(heading, "")), " ", "-")
}

// anchorsOf returns all anchors of a page.
func anchorsOf(text string) map[string]bool {
	text = fencedCode.ReplaceAllString(text, "\n")
	anchors := map[string]bool{}
	for _, heading := range headingLine.FindAllStringSubmatch(text, -1) {
		anchors[anchor(heading[1])] = true
	}
	for _, named := range namedAnchor.FindAllStringSubmatch(text, -1) {
		anchors[named[1]] = true
	}
	return anchors
}

// brokenLinks returns the relative links of a page that lead to no file or to no heading.
func brokenLinks(t *testing.T, page, text string) (broken []string) {
	t.Helper()
	text = inlineCode.ReplaceAllString(fencedCode.ReplaceAllString(text, "\n"), "")
	for _, link := range linkTarget.FindAllStringSubmatch(text, -1) {
		file, fragment, _ := strings.Cut(link[1], "#")
		if strings.Contains(file, "://") {
			continue
		}
		target := page
		if file != "" {
			target = path.Join(path.Dir(page), file)
		}
		linked, err := os.ReadFile(caddytest.Path(t, target))
		if target == page {
			linked, err = []byte(text), nil
		}
		if info, statErr := os.Stat(caddytest.Path(t, target)); statErr == nil && info.IsDir() {
			err = nil
		}
		if err != nil || fragment != "" && !anchorsOf(string(linked))[fragment] {
			broken = append(broken, page+": "+link[1])
		}
	}
	return broken
}

func TestDocuments_links(t *testing.T) {
	t.Parallel()
	for _, page := range append(documents(t), "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "deploy/README.md", "caddytest/chaos/measured.md") {
		for _, link := range brokenLinks(t, page, caddytest.ReadFile(t, page)) {
			t.Error("leads nowhere:", link)
		}
	}
}

// TestDocuments_brokenLinks shows that the test above can fail.
func TestDocuments_brokenLinks(t *testing.T) {
	t.Parallel()
	const text = "# A page\n" +
		"[here](#a-page) [gone](#gone) [file](keys.md) [no file](nothing.md)\n" +
		"[heading](keys.md#values) [no heading](keys.md#nothing) [folder](../deploy/) ![picture](nothing.svg)\n" +
		"[elsewhere](https://example.com/#x) `[code](nothing.go)`\n" +
		"```\n# Gone\n[code](nothing.go)\n```\n"
	want := []string{"docs/new.md: #gone", "docs/new.md: nothing.md", "docs/new.md: keys.md#nothing", "docs/new.md: nothing.svg"}
	got := brokenLinks(t, "docs/new.md", text)
	redistest.ErrorIf(t, !slices.Equal(got, want), "got %q, want %q", got, want)
}

func TestReadme_pages(t *testing.T) {
	t.Parallel()
	_, contents, _ := strings.Cut(caddytest.ReadFile(t, "README.md"), "\n## Documentation\n")
	for _, page := range documents(t) {
		if page == "README.md" || page == "docs/benchmarks.md" {
			continue // it stands in a chapter of its own
		}
		redistest.ErrorIf(t, !strings.Contains(contents, "]("+page+")"), "README.md does not list %s", page)
	}
}

// TestReadme_start sends the requests of the chapter to Caddyfile.example.
func TestReadme_start(t *testing.T) {
	t.Parallel()
	_, loop, found := strings.Cut(caddytest.ReadFile(t, "README.md"), "$ for i in 1 2 3 4; do curl -s http://localhost:8080/search; done\n")
	shown, _, ended := strings.Cut(loop, "```")
	redistest.FatalIf(t, !found || !ended, "README.md has no loop of searches")
	n := caddytest.Start(t, example(t))
	served := ""
	for range 4 {
		served += n.Get(t, "/search").Body
	}
	seconds := regexp.MustCompile(`in \d\.\d+ s`)
	if got, want := seconds.ReplaceAllString(served, "in N s"), seconds.ReplaceAllString(shown, "in N s"); got != want {
		t.Errorf("got\n%s\nREADME.md shows\n%s", got, want)
	}
}

var avoidedWords = regexp.MustCompile(`(?i)\b(whoever|nobody|somebody|tells whether)\b`)

// TestDocuments_words holds the pages to the rules for sentences.
func TestDocuments_words(t *testing.T) {
	t.Parallel()
	for _, page := range append(documents(t), "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "deploy/README.md") {
		for i, line := range strings.Split(caddytest.ReadFile(t, page), "\n") {
			word := avoidedWords.FindString(line)
			redistest.ErrorIf(t, word != "", "%s:%d: write the sentence without %q", page, i+1, word)
		}
	}
}
