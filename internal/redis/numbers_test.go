package redis

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// TestNumbers_names holds the table against the files of scripts/: their names in capitals that no script defines are those
// of the table, and no other name is in it.
func TestNumbers_names(t *testing.T) {
	t.Parallel()
	defined, used := []string{"KEYS", "ARGV", "REDIS_VERSION_NUM"}, map[string]bool{}
	local := regexp.MustCompile(`(?m)^ *local ([\w, ]+)`)
	paths := assert.NoError(filepath.Glob("../../scripts/*.lua"))(t)
	for _, path := range paths {
		text := string(assert.NoError(os.ReadFile(path))(t))
		for _, names := range local.FindAllStringSubmatch(text, -1) {
			defined = append(defined, strings.FieldsFunc(names[1], func(c rune) bool { return c == ',' || c == ' ' })...)
		}
		for line := range strings.Lines(text) {
			if strings.HasPrefix(strings.TrimSpace(line), "--") {
				continue
			}
			for _, word := range capitals.FindAllString(line, -1) {
				if word[0] >= 'A' && word[0] <= 'Z' {
					used[word] = true
				}
			}
		}
	}
	for name := range used {
		_, found := numbers[name]
		assert.ErrorIf(t, found == slices.Contains(defined, name), "%s: in the table: %v; defined by a script: %v", name, found, !found)
	}
	for name := range numbers {
		assert.ErrorIf(t, !used[name], "no script has the name %s of the table", name)
	}
}

// TestScriptSet_numbers has no name of the table in what Redis gets, but in texts and comments.
func TestScriptSet_numbers(t *testing.T) {
	t.Parallel()
	got := withNumbers("if wait == NEVER then   -- NEVER\nx = 'NEVER' .. NEVER_MORE + 2 * BANNED\n")
	assert.Equal(t, got, "if wait == -1 then   -- NEVER\nx = 'NEVER' .. NEVER_MORE + 2 * -2\n", "the numbers")
	set := ScriptSet{}
	for i := range KernelNames {
		script := assert.NoError(set.Get(KernelSet(1)<<i | banFragment | leaseFragment))(t)
		for _, word := range capitals.FindAllString(script.Text, -1) {
			_, found := numbers[word]
			assert.ErrorIf(t, found, "%s: the script has the name %s", KernelNames[i], word)
		}
	}
}
