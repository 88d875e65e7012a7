package docs

import (
	"regexp"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// This file compares the names of docs/install.md and of the Dockerfile with those of the module.

var (
	installCaddy     = regexp.MustCompile(`(?:xcaddy build v|FROM caddy:|\x60v)(2\.\d+\.\d+)`)
	installGo        = regexp.MustCompile(`needs Go (\S+)\. `)
	installWith      = regexp.MustCompile(`xcaddy build v\S+ --with (github\.com/\S+)`)
	moduleDirectives = regexp.MustCompile(`(?m)^(?:(module|go) (\S+)|\t(github\.com/caddyserver/caddy/v2) v(\S+))$`)
)

// requirements returns the module's path, its Go and its Caddy.
func requirements(t *testing.T) map[string]string {
	t.Helper()
	want := map[string]string{}
	for _, match := range moduleDirectives.FindAllStringSubmatch(caddytest.ReadFile(t, "go.mod"), -1) {
		want[match[1]+match[3]] = match[2] + match[4]
	}
	return want
}

// TestInstall_versions compares the page's Caddy, Go and module path with go.mod.
func TestInstall_versions(t *testing.T) {
	t.Parallel()
	want := requirements(t)
	page := caddytest.ReadFile(t, "docs/install.md")
	for what, pattern := range map[string]*regexp.Regexp{
		"github.com/caddyserver/caddy/v2": installCaddy, "go": installGo, "module": installWith,
	} {
		found := pattern.FindAllStringSubmatch(page, -1)
		assert.ErrorIf(t, len(found) == 0, "docs/install.md names no %s", what)
		for _, match := range found {
			assert.ErrorIf(t, match[1] != want[what], "docs/install.md has %q, go.mod has %s %s", match[0], what, want[what])
		}
	}
}

func TestInstall_modules(t *testing.T) {
	t.Parallel()
	output := caddytest.Run{}.Caddy(t, "list-modules").Stdout
	want := ""
	for line := range strings.Lines(output) {
		if strings.Contains(line, "redis_ratelimit") {
			want += line
		}
	}
	page := caddytest.ReadFile(t, "docs/install.md")
	assert.ErrorIf(t, want == "" || !strings.Contains(page, "list-modules | grep redis_ratelimit\n"+want+"$ "), "docs/install.md does not list\n%s", want)
}

// TestDockerfile holds the image to the Caddy of go.mod, and to the line that make xcaddy runs.
func TestDockerfile(t *testing.T) {
	t.Parallel()
	want, text := requirements(t), caddytest.ReadFile(t, "Dockerfile")
	version := want["github.com/caddyserver/caddy/v2"]
	for _, line := range []string{
		"FROM caddy:" + version + "-builder AS builder", "COPY . /src",
		"RUN xcaddy build v" + version + " --with " + want["module"] + "@v0.0.0=/src $PLUGINS",
		"FROM caddy:" + version, "COPY --from=builder /usr/bin/caddy /usr/bin/caddy",
	} {
		assert.ErrorIf(t, strings.Count(text, "\n"+line+"\n") != 1, "the Dockerfile has no line %q", line)
	}
	for _, ignored := range []string{"/.git", "/.build"} {
		assert.ErrorIf(t, !strings.Contains(caddytest.ReadFile(t, ".dockerignore"), ignored+"\n"), ".dockerignore lacks %s", ignored)
	}
}
