package redisratelimit

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/routetrace"
)

// TestWarnings_goldenFiles validates the Caddyfile above the ten dashes. Its warnings must be the lines below, and those
// of its JSON the same, at the places of the routes. Files that begin with right_ have none.
func TestWarnings_goldenFiles(t *testing.T) {
	paths, err := filepath.Glob("testdata/warnings/*.caddyfiletest")
	assert.FatalIf(t, err != nil || len(paths) < 10, "%d golden files, %v", len(paths), err)
	for _, path := range paths {
		path := assert.NoError(filepath.Abs(path))(t)
		name := strings.TrimSuffix(filepath.Base(path), ".caddyfiletest")
		t.Run(name, func(t *testing.T) {
			input, want, _ := strings.Cut(string(assert.NoError(os.ReadFile(path))(t)), tenDashes)
			input = strings.TrimSuffix(input, "\n") + "\n"
			adapted, valid := adaptInFolder(t, input)
			assert.FatalIf(t, !valid, "adapting: %s", adapted)
			checkFormat(t, input)
			warnings := validate(t, adapted)
			got := ""
			for _, w := range warnings {
				got += w.Place + ": " + w.Text + "\n"
			}
			if *update {
				want = got
				assert.Must(t, os.WriteFile(path, []byte(strings.TrimSuffix(input, "\n")+tenDashes+want), 0o600))
			}
			assert.ErrorIf(t, got != want, "got\n%s\nwant\n%s", got, want)
			assert.ErrorIf(t, (len(warnings) == 0) != strings.HasPrefix(name, "right_"), "the name of the file has another result: %s", got)
			assert.Equal(t, strings.Join(textsOf(validate(t, adapted)), "\n"), strings.Join(textsOf(warnings), "\n"), "the warnings of the JSON")
		})
	}
}

// validate returns the warnings of a configuration, and of the Caddyfile that was parsed last and not validated yet.
func validate(t *testing.T, config string) []routetrace.Warning {
	t.Helper()
	c := new(caddy.Config)
	assert.Must(t, json.Unmarshal([]byte(config), c))
	assert.Must(t, caddy.Validate(c))
	return noticed.takeValidated()
}

// textsOf returns the texts of warnings, sorted and each once.
func textsOf(warnings []routetrace.Warning) (texts []string) {
	for _, w := range warnings {
		texts = append(texts, w.Text)
	}
	slices.Sort(texts)
	return slices.Compact(texts)
}
