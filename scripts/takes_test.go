package scripts

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// TestBuildTakes has scripts without a function but `run`, and a take alone without any.
func TestBuildTakes(t *testing.T) {
	for _, kernels := range takesOf(MostChecks) {
		text := assert.NoError(BuildTakes("", 2, kernels...))(t)
		assert.ErrorIf(t, strings.Count(text, "function") != 1, "%v: %s", kernels, text)
		assert.ErrorIf(t, strings.Count(text, "'FOREIGNVALUE") == 0, "%v raises no errors: %s", kernels, text)
		if len(kernels) == 1 {
			text := assert.NoError(BuildAlone("", kernels[0]))(t)
			assert.ErrorIf(t, strings.Contains(text, "function") || strings.Contains(text, "error("), "%v: %s", kernels, text)
			assert.ErrorIf(t, strings.Count(text, "redis.call") != 1, "%v: more than the clock raises an error: %s", kernels, text)
		}
	}
	text := assert.NoError(BuildTakes("", 0, "sliding_window_log"))(t)
	for _, of := range []string{"charge", "refund", "kernels", "passes"} {
		assert.ErrorIf(t, strings.Contains(text, of), "a script of takes of one check has %q", of)
	}
}

// known are the words of Lua, and what Redis gives a script, or Go puts into it.
var known = strings.Fields(`and break do else elseif end error false for function if in local nil not or pairs pcall repeat return then true type until while
	KEYS ARGV math redis string struct table
	A_LOOK BEYOND_QUEUE FAILED FAILED_HALFWAY LOST NEVER NOTHING_LEFT NO_BASE NO_QUEUE RUNNING_HINT STATE SUPERSEDED WITH_RESERVE`)

// TestBuildTakes_names has scripts without a name that they do not declare: Redis would raise an error where it is read.
func TestBuildTakes_names(t *testing.T) {
	for checks := range MostChecks + 1 {
		for _, kernels := range takesOf(checks) {
			checkNames(t, assert.NoError(BuildTakes("", checks, kernels...))(t))
		}
	}
	for _, kernels := range takesOf(1) {
		if len(kernels) == 1 {
			checkNames(t, assert.NoError(BuildAlone("", kernels[0]))(t))
		}
	}
}

var (
	declares = regexp.MustCompile(`(?m)^(?:local|for) (\w+(?:, \w+)*)(?:$| =| in )`)
	defines  = regexp.MustCompile(`(?m)^local function (\w+)\(([\w, ]*)\)`)
)

// checkNames checks the names that a script reads, wherever it declares them.
func checkNames(t *testing.T, text string) {
	t.Helper()
	names := slices.Clone(known)
	for _, declared := range declares.FindAllStringSubmatch(text, -1) {
		names = append(names, list(declared[1])...)
	}
	for _, defined := range defines.FindAllStringSubmatch(text, -1) {
		names = append(names, append(list(defined[2]), defined[1])...)
	}
	for _, word := range words(text) {
		if !strings.ContainsAny(word[:1], ".:'") && !slices.Contains(names, word) {
			t.Errorf("%s is not declared:\n%s", word, text)
			return
		}
	}
}

// takesOf returns the kernels that may stand in a script together, of requests of up to so many checks.
func takesOf(checks int) (all [][]string) {
	names := []string{"fixed_window", "sliding_window_counter", "bucket", "sliding_window_log", "calendar", "concurrency"}
	for set := range 1 << len(names) {
		var kernels []string
		for i, name := range names {
			if set&(1<<i) != 0 {
				kernels = append(kernels, name)
			}
		}
		if HasTakes(checks, kernels...) {
			all = append(all, kernels)
		}
	}
	return all
}

// TestHasTakes counts the scripts of takes.
func TestHasTakes(t *testing.T) {
	for checks, want := range []int{6, 25, 25, 25, 15, 0} {
		assert.Equal(t, len(takesOf(checks)), want, "sets of kernels with so many checks")
	}
	assert.Equal(t, HasTakes(1, "waiting"), false, "takes of requests that wait")
	for _, build := range []func() (string, error){
		func() (string, error) { return BuildTakes("", 2, "concurrency") },
		func() (string, error) { return BuildTakes("", 0, "bucket", "calendar") },
		func() (string, error) { return BuildAlone("", "concurrency") },
		func() (string, error) { return BuildTakes("", 1) },
	} {
		text, err := build()
		assert.ErrorIf(t, err == nil || text != "", "got %q", text)
	}
}

// TestReturnErrors has commands whose errors are returned: a table, like the answer to SET.
func TestReturnErrors(t *testing.T) {
	const failed = "return {pack('<ddddd', now_us, FAILED, 0, 0, 0), 1, "
	got := returnErrors("local state = call('GET', key)\nif #state ~= 24 then\n  error('FOREIGN', 0)\nend\ncall('SET', key, pack('<d', 1), 'KEEPTTL')\n")
	assert.Equal(t, got, "local state = call('GET', key)\nif type(state) == 'table' then\n"+failed+"state.err}\nend\n"+
		"if #state ~= 24 then\n"+failed+"'FOREIGN'}\nend\n"+
		"local answer = call('SET', key, pack('<d', 1), 'KEEPTTL')\nif answer.err then\n"+failed+"answer.err}\nend\n", "the script")
}

func TestPrune(t *testing.T) {
	got := prune([]string{
		"local a, b = 1, 2",
		"local c",
		"local d, e, f = unpack(a)",
		"local g = call('GET', a)",
		"local h = i + 1",
		"local i = 2",
		"local j, k = 1, 2, 3",
		"local m, n = f(a, e), 1",
		"return d + n",
	})
	assert.Equal(t, strings.Join(got, "\n"), strings.Join([]string{
		"local a = 1",
		"local d, e, f = unpack(a)",
		"local g = call('GET', a)",
		"local j, k = 1, 2, 3",
		"local n = 1",
		"return d + n",
	}, "\n"), "what is left")
}

// TestInliner_remaining finds calls that no lines can stand for.
func TestInliner_remaining(t *testing.T) {
	for text, want := range map[string]string{
		"local b = left(policy) - 1":                 "left",
		"local a = left(policy)\nlocal b = a - 1":    "",
		"local a = early(policy)\nlocal b = a - 1":   "early",
		"local a = t.left(policy)\nlocal b = 'left'": "",
	} {
		in := inliner{calls: new(int)}
		in.define("local function left(policy)\n  local c = policy.limit\n  return c\nend\n" +
			"local function early(a)\n  if a then\n    return a\n  end\n  return 0\nend\n")
		assert.Equal(t, in.remaining(in.inline(code(text))), want, "the call that is left of %q", text)
	}
}

func TestInliner(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"a declaration": {`
local function double(a)
  local b = 2 * a
  return b
end
local x = double(n)`, `
local x = 2 * n`},

		"an argument that is an expression, and a target whose name the function uses": {`
local function rest(limit, used)
  local left, most = limit - used, limit
  return left, most, 0
end
local most, limit, none = rest(policy.limit, used + 1)`, `
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
local x = two(n)`, `
local b_3 = n
local x = b_3`},
	} {
		in := inliner{calls: new(int)}
		got := "\n" + strings.Join(in.inline(in.define(c.text)), "\n")
		assert.ErrorIf(t, got != c.want, "%s:%s\nwant:%s", name, got, c.want)
	}
}
