package takes

import (
	"strings"
	"testing"
	"testing/fstest"
)

// TestGenerate_closure_that_reads_its_policy calls a function of several lines within an expression.
func TestGenerate_closure_that_reads_its_policy(t *testing.T) {
	for call, want := range map[string]string{
		"local b = left(policy) - 1":                "k.lua: left reads its policy: ",
		"local a = left(policy)\n  local b = a - 1": "",
	} {
		files := fstest.MapFS{"k_changes.lua": {}, "prelude.lua": {}}
		for name, text := range map[string]string{
			"takes.lua": "local function run()\n" + place + "  " + call + end,
			"k.lua":     "local function left(policy)\n  local c = policy.limit\n  return c\nend\n",
		} {
			files[name] = &fstest.MapFile{Data: []byte(text)}
		}
		scripts, err := Generate(files)
		if want == "" && (err != nil || !strings.Contains(scripts["k_takes.lua"], "= policy_limit\n")) {
			t.Errorf("%s: %s, %v", call, scripts["k_takes.lua"], err)
		}
		if want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("%s: error %v; want %s", call, err, want)
		}
	}
}
