// Package plugins tests limits beside handlers that have the module names and places of other authors' plugins, and
// beside parts of Caddy's own that most files do not have. The test's own program is the Caddy that has these handlers.
package plugins

import (
	"os"
	"strings"
	"testing"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/redis-ratelimit/caddy-redis-ratelimit"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// TestMain runs Caddy if a test has started the program as such.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-") {
		caddycmd.Main()
		return
	}
	program, err := os.Executable()
	if err == nil {
		err = os.Setenv("CADDY_BINARY", program)
	}
	if err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// start runs a Caddyfile that has a site on {$PORT}.
func start(t *testing.T, global, site string) *caddytest.Node {
	t.Helper()
	return caddytest.Start(t, caddytest.Config(global, site))
}

// warned fails unless Caddy's log has, for each text, a warning with it, and no other about the places of handlers.
func warned(t *testing.T, n *caddytest.Node, texts ...string) {
	t.Helper()
	var warnings []string
	for line := range strings.Lines(n.Log.String()) {
		if strings.Contains(line, `"level":"warn"`) && strings.Contains(line, `"place":`) {
			warnings = append(warnings, line)
		}
	}
	assert.FatalIf(t, len(warnings) != len(texts), "got %q, want %q", warnings, texts)
	for i, text := range texts {
		assert.ErrorIf(t, !strings.Contains(warnings[i], text), "got %q, want %q", warnings[i], text)
	}
}
