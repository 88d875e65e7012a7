package scripts

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// TestBuild has scripts of batches without what only people read, and none of kernels that do not exist.
func TestBuild(t *testing.T) {
	text := assert.NoError(Build("-- the clock\nlocal clock = 1\n", "fixed_window", "sliding_window_log", "concurrency"))(t)
	for line := range strings.Lines(text) {
		assert.ErrorIf(t, strings.HasPrefix(strings.TrimSpace(line), "--") || strings.TrimSpace(line) == "", "the line %q", line)
	}
	assert.ErrorIf(t, strings.Count(text, "local clock = 1\n") != 1, "%s", text)
	for name, build := range map[string]func() (string, error){
		"a batch": func() (string, error) { return Build("", "nothing") }, "takes": func() (string, error) { return BuildTakes("", 0, "nothing") },
	} {
		text, err := build()
		assert.ErrorIf(t, err == nil || text != "", "%s of no kernel: %q", name, text)
	}
}

var (
	headOf = regexp.MustCompile(`^(?:--.*\n)+`)
	goFile = regexp.MustCompile(`[\w/]+\.go\b`)
)

// notOfRedis are folders with Lua that other servers run.
var notOfRedis = []string{"parsers/nginx", "parsers/identity/nginx"}

// TestHeaders reads what each script for Redis says of itself.
func TestHeaders(t *testing.T) {
	root, read := os.DirFS(".."), 0
	err := fs.WalkDir(root, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (strings.HasPrefix(path, ".") && path != "." || slices.Contains(notOfRedis, path)) {
			return fs.SkipDir
		}
		if filepath.Ext(path) != ".lua" {
			return nil
		}
		read++
		text, err := fs.ReadFile(root, path)
		if err != nil {
			return err
		}
		checkHeader(t, root, path, headOf.FindString(string(text)))
		return nil
	})
	assert.ErrorIf(t, err != nil || read < 30, "read %d scripts: %v", read, err)
}

func checkHeader(t *testing.T, root fs.FS, path, head string) {
	t.Helper()
	has := func(row string) bool { return strings.Contains(head, "\n-- "+row+": ") }
	for _, row := range []string{"Go twin", "KEYS", "ARGV"} {
		assert.ErrorIf(t, !has(row), "%s: its header has no line with %s", path, row)
	}
	assert.ErrorIf(t, !has("Defines") && (!has("Returns") || !has("Example")), "%s: its header has neither Defines nor Returns and Example", path)
	_, twin, _ := strings.Cut(head, "Go twin: ")
	twin, _, _ = strings.Cut(twin, "\n")
	file := goFile.FindString(twin)
	_, err := fs.Stat(root, file)
	assert.ErrorIf(t, file != "" && err != nil || file == "" && !strings.HasPrefix(twin, "none; "), "%s: its Go twin %q is no file", path, twin)
}
