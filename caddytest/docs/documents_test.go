// Package docs tests the pages: their Caddyfiles are validated, their commands and requests are run, and
// their links are followed.
package docs

import (
	"fmt"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// TestCaddyfileExample checks the file as it is, and with its advice followed.
func TestCaddyfileExample(t *testing.T) {
	t.Parallel()
	const off, on = "# redis redis://", "redis redis://"
	text := caddytest.ReadFile(t, "Caddyfile.example")
	assert.FatalIf(t, strings.Count(text, off) != 1, "Caddyfile.example has no line %q to uncomment", off)
	caddytest.CheckCaddyfile(t, text, nil)
	caddytest.CheckCaddyfile(t, strings.Replace(text, off, on, 1), nil)
}

var (
	wholeCaddyfile = regexp.MustCompile("\n *```caddyfile\n((?s:.*?)\n) *```\n")
	usedVariable   = regexp.MustCompile(`\{env\.(\w+)\}|\{\$(\w+)\}`)
	usedFile       = regexp.MustCompile(`\{file\.[^}]+|/[\w./-]+\.(?:pem|crt|key)|/run/secrets/[\w./-]+`)
)

// documents returns the paths of the README and of all pages in docs/.
func documents(t *testing.T) []string {
	t.Helper()
	pages, err := filepath.Glob(caddytest.Path(t, "docs/*.md"))
	assert.FatalIf(t, err != nil || len(pages) == 0, "docs/ has no pages: %v", err)
	for i, page := range pages {
		pages[i] = "docs/" + filepath.Base(page)
	}
	return append(pages, "README.md")
}

// testedElsewhere are pages whose Caddyfiles have tests of their own.
var testedElsewhere = []string{"docs/migrating.md", "docs/plugins.md", "docs/recipes.md"}

// TestDocuments_caddyfiles takes every block that is a whole Caddyfile.
func TestDocuments_caddyfiles(t *testing.T) {
	t.Parallel()
	files := stand(t)
	count := 0
	for _, page := range documents(t) {
		if slices.Contains(testedElsewhere, page) {
			continue
		}
		text := caddytest.ReadFile(t, page)
		for _, block := range wholeCaddyfile.FindAllStringSubmatchIndex(text, -1) {
			count++
			line := 1 + strings.Count(text[:block[2]], "\n")
			t.Run(fmt.Sprintf("%s line %d", page, line), func(t *testing.T) {
				body := text[block[2]:block[3]]
				caddytest.CheckCaddyfile(t, usedFile.ReplaceAllStringFunc(body, files.replace), variables(body))
			})
		}
	}
	least := 10
	assert.ErrorIf(t, count < least, "%d blocks begin with ```caddyfile, want %d or more", count, least)
}

// variables returns a value for each environment variable of a Caddyfile.
func variables(text string) []string {
	var env []string
	for _, match := range usedVariable.FindAllStringSubmatch(text, -1) {
		name := match[1] + match[2]
		value := "example"
		switch {
		case name == "WEBHOOK_SECRET":
			value = caddytest.InboxSecret
		case strings.HasSuffix(name, "URL"):
			value = "redis://127.0.0.1:6379"
		case strings.Contains(name, "ADDR") || strings.Contains(name, "HOST"):
			value = "127.0.0.1:6379"
		}
		env = append(env, name+"="+value)
	}
	return env
}

// standIns are files in place of those that a documented Caddyfile names.
type standIns struct{ ca, cert, key, secret string }

func stand(t *testing.T) standIns {
	t.Helper()
	authority := redistest.NewAuthority(t)
	files := standIns{ca: authority.CA, secret: filepath.Join(t.TempDir(), "secret")}
	files.cert, files.key = authority.Issue(t, "caddy.test")
	assert.Must(t, os.WriteFile(files.secret, []byte("example"), 0o600))
	return files
}

// replace returns the stand-in for a path, which may follow "{file.".
func (s standIns) replace(path string) string {
	name := filepath.Base(path)
	switch {
	case strings.HasPrefix(path, "{file."):
		return "{file." + s.secret
	case strings.Contains(name, "key"):
		return s.key
	case strings.HasPrefix(name, "ca.") || strings.HasPrefix(name, "ca-") || strings.Contains(name, "-ca."):
		return s.ca
	case strings.HasPrefix(path, "/run/secrets/"):
		return s.secret
	}
	return s.cert
}

var (
	aclLine = regexp.MustCompile(`(?m)^ACL SETUSER .*$`)
	granted = regexp.MustCompile(` \+([\w|-]+)| (&[\w+-]+)`)
)

// documentedRights returns what docs/redis.md grants on Redis and on the sentinels: commands, and channels with &.
func documentedRights(t *testing.T) (server, sentinel []string) {
	t.Helper()
	lines := aclLine.FindAllString(caddytest.ReadFile(t, "docs/redis.md"), -1)
	assert.FatalIf(t, len(lines) != 2, "docs/redis.md has %d lines of ACL SETUSER, want one for Redis and one for the sentinels", len(lines))
	var rights [2][]string
	for i, line := range lines {
		for _, match := range granted.FindAllStringSubmatch(line, -1) {
			rights[i] = append(rights[i], match[1]+match[2])
		}
		slices.Sort(rights[i])
	}
	return rights[0], rights[1]
}

// TestDocuments_ACL compares what docs/redis.md grants with what is tested.
func TestDocuments_ACL(t *testing.T) {
	t.Parallel()
	server, sentinel := documentedRights(t)
	tested := strings.Fields(caddytest.ACLCommands + " " + caddytest.ACLDatabaseCommands + " " + caddytest.ACLClusterCommands + " " + caddytest.ACLOperatorCommands + " " + caddytest.ACLOverrideCommands)
	slices.Sort(tested)
	if want := slices.Compact(tested); !slices.Equal(server, want) {
		t.Errorf("docs/redis.md grants on Redis\n%v, want\n%v", server, want)
	}
	tested = strings.Fields(caddytest.ACLSentinelCommands)
	for _, channel := range strings.Fields(caddytest.ACLSentinelChannels) {
		tested = append(tested, "&"+channel)
	}
	if slices.Sort(tested); !slices.Equal(sentinel, tested) {
		t.Errorf("docs/redis.md grants at the sentinels\n%v, want\n%v", sentinel, tested)
	}
}

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
	assert.ErrorIf(t, !slices.Equal(got, want), "got %q, want %q", got, want)
}

func TestReadme_pages(t *testing.T) {
	t.Parallel()
	_, contents, _ := strings.Cut(caddytest.ReadFile(t, "README.md"), "\n## Documentation\n")
	for _, page := range documents(t) {
		if page == "README.md" || page == "docs/benchmarks.md" {
			continue // it stands in a chapter of its own
		}
		assert.ErrorIf(t, !strings.Contains(contents, "]("+page+")"), "README.md does not list %s", page)
	}
}

// TestReadme_start sends the requests of the chapter to Caddyfile.example, and has one more explained as the README does.
func TestReadme_start(t *testing.T) {
	t.Parallel()
	_, loop, found := strings.Cut(caddytest.ReadFile(t, "README.md"), "$ for i in 1 2 3 4; do curl -s http://127.0.0.1:8080/search; done\n")
	shown, _, ended := strings.Cut(loop, "```")
	assert.FatalIf(t, !found || !ended, "README.md has no loop of searches")
	n := caddytest.Start(t, example(t))
	served := ""
	for i := range int64(4) {
		a := n.Get(t, "/search")
		caddytest.CheckQuota(t, a, 3, max(2-i, 0))
		served += a.Body
		if i == 3 {
			wait := retryAfter(t, caddytest.CheckRefusal(t, a, http.StatusTooManyRequests))
			assert.ErrorIf(t, wait > 6, "got %v; want a search back within 6 seconds", a)
		}
	}
	seconds := regexp.MustCompile(`in \d\.\d+ s`)
	if got, want := seconds.ReplaceAllString(served, "in N s"), seconds.ReplaceAllString(shown, "in N s"); got != want {
		t.Errorf("got\n%s\nREADME.md shows\n%s", got, want)
	}
	const counted = "caddy_redis_ratelimit_decisions_total"
	_, metrics, _ := strings.Cut(caddytest.ReadFile(t, "docs/metrics.md"), "grep ^"+counted+"\n")
	metrics, _, _ = strings.Cut(metrics, "```")
	var lines []string
	for line := range strings.Lines(n.Send(t, http.MethodGet, n.Admin+"/metrics", "").Body) {
		if strings.HasPrefix(line, counted) {
			lines = append(lines, line)
		}
	}
	assert.Equal(t, strings.Join(lines, ""), metrics, "what docs/metrics.md shows")
	_, shown, found = strings.Cut(caddytest.ReadFile(t, "README.md"), "$ ./caddy redis-ratelimit explain --url http://127.0.0.1:8080/search --client-ip 127.0.0.1\n")
	shown, _, ended = strings.Cut(shown, "```")
	assert.FatalIf(t, !found || !ended, "README.md explains no search")
	explained := n.Ratelimit(t, "explain", "--url", n.URL+"/search", "--client-ip", "127.0.0.1").Stdout
	words := func(text string) string { // without times, and the spaces that depend on them
		return strings.Join(strings.Fields(regexp.MustCompile(`[\d.]+ s`).ReplaceAllString(text, "N s")), " ")
	}
	assert.ErrorIf(t, words(explained) != words(shown), "got\n%s\nREADME.md shows\n%s", explained, shown)
}

// TestDocuments_sizes wants the bytes of a count that docs/operations.md has measured on the other pages that name them.
func TestDocuments_sizes(t *testing.T) {
	t.Parallel()
	measured := regexp.MustCompile("\n\\| `sliding_window_counter`[^|]*\\| any \\| (\\d+) \\|").FindStringSubmatch(caddytest.ReadFile(t, "docs/operations.md"))
	assert.FatalIf(t, measured == nil, "docs/operations.md has no size of a count")
	for page, sentence := range map[string]string{"SECURITY.md": "[%s bytes or more](docs/operations.md#sizing)", "docs/redis.md": "A count takes %s to "} {
		want := fmt.Sprintf(sentence, measured[1])
		assert.ErrorIf(t, !strings.Contains(caddytest.ReadFile(t, page), want), "%s does not say %q", page, want)
	}
}

// TestDocuments_bounds wants links of a bound to lead to the chapter of bounds.
func TestDocuments_bounds(t *testing.T) {
	t.Parallel()
	found := 0
	for _, page := range documents(t) {
		for _, link := range regexp.MustCompile(`\[[^\]]*\bbounds?\]\(([^)]+)\)`).FindAllStringSubmatch(caddytest.ReadFile(t, page), -1) {
			found++
			assert.ErrorIf(t, !strings.HasSuffix(link[1], "#bounds"), "%s: %s leads elsewhere", page, link[0])
		}
	}
	assert.ErrorIf(t, found < 2, "%d links of a bound, want 2 at least", found)
}

// TestDocuments_errorObject plays the example of an error route, whose body clients of APIs understand.
func TestDocuments_errorObject(t *testing.T) {
	t.Parallel()
	_, chapter, _ := strings.Cut(caddytest.ReadFile(t, "docs/responses.md"), "\n## Bodies of denials\n")
	example := wholeCaddyfile.FindStringSubmatch(chapter)
	assert.FatalIf(t, example == nil, "the chapter has no Caddyfile")
	_, site, _ := strings.Cut(example[1], ":8080 {")
	n := caddytest.Start(t, caddytest.ConfigWithSites("", ":{$PORT} {"+site))
	n.GetTimes(t, 100, "/")
	refusal := n.Get(t, "/")
	for refusal.Status == http.StatusOK { // a minute has ended
		refusal = n.Get(t, "/")
	}
	a := caddytest.CheckRefusal(t, refusal, http.StatusTooManyRequests).Want(t, 0, caddytest.Any, "Content-Type: application/json")
	type object struct{ Type, Message, Policy string }
	got := caddytest.ParseJSON[struct{ Error object }](t, a)
	assert.Equal(t, got.Error, object{"rate_limit_error", "Too many requests.", "default"}, "the error")
}

// TestDocuments_document wants the JSON document and the line of text as the page shows them, but for the wait.
func TestDocuments_document(t *testing.T) {
	t.Parallel()
	_, chapter, _ := strings.Cut(caddytest.ReadFile(t, "docs/responses.md"), "\n## Bodies of denials\n")
	shown := regexp.MustCompile("(?s)```\n(Too many[^\n]*)\n```.*?```json\n([^\n]*)\n```").FindStringSubmatch(chapter)
	assert.FatalIf(t, shown == nil, "the chapter shows no line of text and no document")
	n := caddytest.Start(t, caddytest.Config("", "redis_ratelimit same 1 50s { algorithm gcra }\nrespond ok"))
	wait := regexp.MustCompile(`\d+( seconds?|})`)
	n.Await(t, "/", http.StatusTooManyRequests, caddytest.Any)
	for accept, want := range map[string]string{"*/*": shown[1], "application/json": shown[2]} {
		a := n.Get(t, "/", "Accept: "+accept)
		assert.Equal(t, wait.ReplaceAllString(a.Body, "WAIT"), wait.ReplaceAllString(want, "WAIT"), "what docs/responses.md shows of %s", accept)
	}
}

var avoidedWords = regexp.MustCompile(`(?i)\b(whoever|nobody|somebody|tells whether)\b`)

// TestDocuments_words holds the pages to the rules for sentences.
func TestDocuments_words(t *testing.T) {
	t.Parallel()
	for _, page := range append(documents(t), "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "deploy/README.md") {
		for i, line := range strings.Split(caddytest.ReadFile(t, page), "\n") {
			word := avoidedWords.FindString(line)
			assert.ErrorIf(t, word != "", "%s:%d: write the sentence without %q", page, i+1, word)
		}
	}
}
