package scripts

import (
	"flag"
	"io/fs"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

var update = flag.Bool("update", false, "write the scripts of takes instead of comparing them")

// TestTakes_current compares the scripts of takes with what they are made of, or writes them.
func TestTakes_current(t *testing.T) {
	files := os.DirFS(".")
	wanted := assert.NoError(takes(files))(t)
	for name, want := range wanted {
		if *update {
			assert.Must(t, os.WriteFile(name, []byte(want), 0o600))
		}
		got, err := fs.ReadFile(files, name)
		assert.ErrorIf(t, err != nil || string(got) != want, "scripts/%s is not current, run: go generate ./scripts (%v)", name, err)
	}
	if names, err := fs.Glob(files, "*_takes.lua"); err != nil || len(names) != len(wanted) {
		t.Errorf("%d scripts of takes: %v, %v; want %d", len(names), names, err, len(wanted))
	}
}

// TestTakes_closure_that_reads_its_policy calls a function of several lines within an expression.
func TestTakes_closure_that_reads_its_policy(t *testing.T) {
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
		scripts, err := takes(files)
		if want == "" && (err != nil || !strings.Contains(scripts["k_takes.lua"], "= policy_limit\n")) {
			t.Errorf("%s: %s, %v", call, scripts["k_takes.lua"], err)
		}
		assert.ErrorIf(t, want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)),
			"%s: error %v; want %s", call, err, want)
	}
}

func TestInline(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"a declaration": {`
local function double(a)
  local b = 2 * a
  return b
end
local x = double(n)`, `
-- x = double(n)
local x = 2 * n`},

		"an argument that is an expression, and a target whose name the function uses": {`
local function rest(limit, used)
  local left, most = limit - used, limit
  return left, most, 0
end
local most, limit, none = rest(policy.limit, used + 1)`, `
-- most, limit, none = rest(policy.limit, used + 1)
local limit_1 = policy.limit
local used_1 = used + 1
local left_1, most_1 = limit_1 - used_1, limit_1
local most, limit, none = left_1, most_1, 0`},

		"an assignment": {`
local function least(a, b)
  local c = a
  if b < c then
    c = b
  end
  return c
end
c = least(c, 'b')`, `
-- c = least(c, 'b')
local c_1 = c
if 'b' < c_1 then
  c_1 = 'b'
end
c = c_1`},

		"a parameter that the function changes, and one that is not passed": {`
local function add(a, b)
  a = a + 1
  call('SET', 'a', a.a, b)
end
  add(n)`, `
  -- add(n)
  local a_1 = n
  local b_1
  a_1 = a_1 + 1
  call('SET', 'a', a_1.a, b_1)`},

		"an expression": {`
local function ceil_div(a, b)
  return floor((a + b - 1) / b)
end
local x = 1 + ceil_div(n - 1, limit) + t.ceil_div(a, b)`, `
local x = 1 + (floor(((n - 1) + limit - 1) / limit)) + t.ceil_div(a, b)`},

		"functions in functions": {`
local function one(a)
  local b = a
  return b
end
local function two(a)
  local b = one(a)
  local c = one(b)
  return c
end
local x, y = two(n), 1
local x = two(n)`, `
local function two(a)
  -- b = one(a)
  local b = a
  -- c = one(b)
  local c = b
  return c
end
local x, y = two(n), 1
-- x = two(n)
-- b_3 = one(n)
local b_3 = n
-- x = one(b_3)
local x = b_3`},

		"what returns early stays, and what has no call goes": {`
local function early(a)
  if a then
    return a
  end
  return 0
end
local function unused(a)
  error(a)
end
local x = early(1)`, `
local function early(a)
  if a then
    return a
  end
  return 0
end
local x = early(1)`},
	} {
		got := "\n" + strings.Join(inline(c.text), "\n")
		assert.ErrorIf(t, got != c.want, "%s:%s\nwant:%s", name, got, c.want)
	}
}
