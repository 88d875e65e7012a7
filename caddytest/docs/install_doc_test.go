package docs

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"

	"go.yaml.in/yaml/v3"
)

// This file compares the names of docs/install.md with one another.

var (
	installCompose   = regexp.MustCompile("\n```yaml\n((?s:.*?)\n)```\n")
	installFile      = regexp.MustCompile(`\{file\.(/[^}]+)\}`)
	installCaddy     = regexp.MustCompile(`(?:xcaddy build v|FROM caddy:|\x60v)(2\.\d+\.\d+)`)
	installGo        = regexp.MustCompile(`needs Go (\S+)\. `)
	installWith      = regexp.MustCompile(`--with (github\.com/\S+)`)
	moduleDirectives = regexp.MustCompile(`(?m)^(?:(module|go) (\S+)|\t(github\.com/caddyserver/caddy/v2) v(\S+))$`)
)

// installPage is docs/install.md.
type installPage struct {
	text       string
	caddyfiles []string // of the compose file, then of systemd
	compose    compose
}

func readInstallPage(t *testing.T) installPage {
	t.Helper()
	page := installPage{text: caddytest.ReadFile(t, "docs/install.md")}
	for _, block := range wholeCaddyfile.FindAllStringSubmatch(page.text, -1) {
		page.caddyfiles = append(page.caddyfiles, block[1])
	}
	blocks := installCompose.FindAllStringSubmatch(page.text, -1)
	if len(page.caddyfiles) != 2 || len(blocks) != 1 {
		t.Fatalf("docs/install.md has %d Caddyfiles and %d compose files, want 2 and 1", len(page.caddyfiles), len(blocks))
	}
	if err := yaml.Unmarshal([]byte(blocks[0][1]), &page.compose); err != nil {
		t.Fatal(err)
	}
	return page
}

func TestInstall_caddyfiles(t *testing.T) {
	t.Parallel()
	files := stand(t)
	for i, body := range readInstallPage(t).caddyfiles {
		t.Run(fmt.Sprint("block ", i+1), func(t *testing.T) {
			checkCaddyfile(t, installFile.ReplaceAllString(body, "{file."+files.secret+"}"), variables(body))
		})
	}
}

// TestInstall_versions compares the page's Caddy, Go and module path with go.mod.
func TestInstall_versions(t *testing.T) {
	t.Parallel()
	text := caddytest.ReadFile(t, "go.mod")
	want := map[string]string{}
	for _, match := range moduleDirectives.FindAllStringSubmatch(text, -1) {
		want[match[1]+match[3]] = match[2] + match[4]
	}
	page := readInstallPage(t)
	for what, pattern := range map[string]*regexp.Regexp{
		"github.com/caddyserver/caddy/v2": installCaddy, "go": installGo, "module": installWith,
	} {
		found := pattern.FindAllStringSubmatch(page.text, -1)
		if len(found) == 0 {
			t.Errorf("docs/install.md names no %s", what)
		}
		for _, match := range found {
			if match[1] != want[what] {
				t.Errorf("docs/install.md has %q, go.mod has %s %s", match[0], what, want[what])
			}
		}
	}
}

func TestInstall_modules(t *testing.T) {
	t.Parallel()
	output, err := caddytest.RunCaddy(t, nil, "list-modules")
	if err != nil {
		t.Fatal(err)
	}
	want := ""
	for line := range strings.Lines(output) {
		if strings.Contains(line, "redis_ratelimit") {
			want += line
		}
	}
	if page := readInstallPage(t); want == "" || !strings.Contains(page.text, "list-modules | grep redis_ratelimit\n"+want+"$ ") {
		t.Errorf("docs/install.md does not list\n%s", want)
	}
}
