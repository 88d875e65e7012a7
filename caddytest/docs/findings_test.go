package docs

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// TestFindings_listed reads the table of each ground, as .ci/findings chooses scripts: by their line "# Ground:".
func TestFindings_listed(t *testing.T) {
	t.Parallel()
	scripts := assert.NoError(filepath.Glob(caddytest.Path(t, "findings/*.sh")))(t)
	assert.FatalIf(t, len(scripts) < 60, "there are %d scripts", len(scripts))
	listed := map[string]string{} // script to ground
	ground := ""
	for line := range strings.Lines(caddytest.ReadFile(t, "findings/README.md")) {
		if only := regexp.MustCompile("^`ONLY=([a-z]+)`").FindStringSubmatch(line); only != nil {
			ground = only[1]
		}
		if row := regexp.MustCompile(`^\| \[(\S+\.sh)\]\(`).FindStringSubmatch(line); row != nil {
			assert.ErrorIf(t, listed[row[1]] != "", "%s has two rows", row[1])
			listed[row[1]] = ground
		}
	}
	for _, path := range scripts {
		name := filepath.Base(path)
		said := regexp.MustCompile(`(?m)^# Ground: ([a-z]+)$`).FindStringSubmatch(caddytest.ReadFile(t, "findings/"+name))
		assert.FatalIf(t, said == nil, "%s has no line # Ground:", name)
		assert.Equal(t, listed[name], said[1], "the table of %s", name)
		delete(listed, name)
	}
	assert.ErrorIf(t, len(listed) > 0, "rows without a script: %v", listed)
}
