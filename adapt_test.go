package redisratelimit

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// update writes the golden files anew. Read the difference before you keep it.
var update = flag.Bool("update", false, "rewrite the expectations in testdata/adapt/*.caddyfiletest")

const tenDashes = "\n----------\n"

// TestAdapt_goldenFiles adapts the Caddyfile above the ten dashes. The result must be the JSON below
// them, or an error with the first and last line of that text. Imports are relative to this package.
func TestAdapt_goldenFiles(t *testing.T) {
	for _, path := range goldenFiles(t) {
		path := assert.NoError(filepath.Abs(path))(t)
		t.Run(strings.TrimSuffix(filepath.Base(path), ".caddyfiletest"), func(t *testing.T) {
			text := assert.NoError(os.ReadFile(path))(t)
			input, want, found := strings.Cut(string(text), tenDashes)
			assert.FatalIf(t, !found && !*update, "the file has no line of ten dashes; -update adds it")
			input = strings.TrimSuffix(input, "\n") + "\n"
			got, adapted := adaptInFolder(t, input)
			if *update && (adapted || !isFramed(got, want)) {
				want = got + "\n"
				assert.Must(t, os.WriteFile(path, []byte(strings.TrimSuffix(input, "\n")+tenDashes+want), 0o600))
			}
			assert.ErrorIf(t, adapted == strings.HasPrefix(filepath.Base(path), "error_"), "the name of the file has another result: %s", got)
			if adapted {
				assert.ErrorIf(t, got+"\n" != want, "got\n%s\nwant\n%s", got, want)
				checkFormat(t, input)
				checkLoads(t, input, got, slices.Contains(warned, filepath.Base(path)))
			} else if !isFramed(got, want) || !strings.Contains(got, "Caddyfile:") {
				t.Errorf("got the error\n%s\nwant\n%s\nwith the file and the line", got, want)
			}
		})
	}
}

func goldenFiles(t testing.TB) []string {
	t.Helper()
	paths, err := filepath.Glob("testdata/adapt/*.caddyfiletest")
	assert.FatalIf(t, err != nil || len(paths) == 0, "there are no golden files, error %v", err)
	return paths
}

// isFramed reports whether the text begins with the first line and ends with the last, which names file and line.
func isFramed(text, lines string) bool {
	all := strings.Split(strings.TrimSpace(lines), "\n")
	return lines != "" && strings.HasPrefix(text, all[0]) && strings.HasSuffix(text, all[len(all)-1])
}

// waitingPage is a page of an operator's on which browsers wait.
const waitingPage = `<meta http-equiv="refresh" content="1;url={challenge.link}">
<link rel="stylesheet" href="{challenge.stylesheet}"><p>Acme`

// adaptInFolder returns the JSON, or the text of the error. The Caddyfile stands in a folder of its own, with a page.
func adaptInFolder(t *testing.T, input string) (output string, adapted bool) {
	t.Helper()
	t.Chdir(t.TempDir())
	assert.Must(t, os.WriteFile("Caddyfile", []byte(input), 0o600))
	assert.Must(t, os.WriteFile("wait.html", []byte(waitingPage), 0o600))
	result, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(input), map[string]any{"filename": "Caddyfile"})
	if err != nil {
		return err.Error(), false
	}
	var indented bytes.Buffer
	assert.Must(t, json.Indent(&indented, result, "", "\t"))
	return indented.String(), true
}

// checkFormat checks that `caddy fmt` would change nothing.
func checkFormat(t *testing.T, input string) {
	t.Helper()
	formatted := string(caddyfile.Format([]byte(input)))
	assert.ErrorIf(t, formatted != input, "caddy fmt makes of it\n%s", formatted)
}

// warned are golden files whose configurations are warned of.
var warned = []string{
	"answer.caddyfiletest", "global_crawlers_one_line.caddyfiletest", "global_crawlers_without_wait.caddyfiletest",
	"unnamed_handlers_share_the_default_policy.caddyfiletest",
}

// checkLoads provisions the configuration, unless it needs files that are missing, and looks for warnings.
func checkLoads(t *testing.T, input, output string, isWarned bool) {
	t.Helper()
	if strings.Contains(input, "/etc/") || strings.Contains(input, "{file.") {
		return
	}
	t.Setenv("WEBHOOK_URL", "http://127.0.0.1:9000")
	for _, name := range []string{"REDIS_PASSWORD", "SENTINEL_PASSWORD", "SECRET"} {
		t.Setenv(name, "secret")
	}
	t.Setenv("THIRD_NODE", "10.0.0.3:6379")
	config := new(caddy.Config)
	assert.Must(t, json.Unmarshal([]byte(output), config))
	if err := caddy.Validate(config); err != nil {
		t.Errorf("the configuration does not load: %v", err)
	}
	warnings := noticed.takeValidated()
	assert.ErrorIf(t, (len(warnings) > 0) != isWarned, "warnings %v, want some: %t", warnings, isWarned)
}
