package scripts

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// This file sets functions of Lua in place of their calls, because a closure costs a script run as much as a
// decision's arithmetic does:
//
//	local function rest(limit, used)
//	  local left = limit - used
//	  return left
//	end
//	local r = rest(policy.limit, c)   ->  -- r = rest(policy.limit, c)
//	                                      local limit_1 = policy.limit
//	                                      local r = limit_1 - c
//
// It knows no Lua, only lines. It replaces lines that are nothing but a call, an assignment of one or a
// declaration by one, of functions at the beginning of a line that return nowhere but in their last line, if at
// all. Functions that are nothing but an expression stand in place of their calls everywhere. All other calls
// stay, and their functions with them; functions without calls are left out. Names of locals get a number, so
// that none hides another. Tables with names as keys are beyond it.

// function is one function of a text, without the lines of its head and end.
type function struct {
	name    string
	params  []string
	body    []string
	results []string // of the last line
	inlines bool     // returns nowhere but at its end
}

var (
	functionHead = regexp.MustCompile(`^local function (\w+)\(([\w, ]*)\)$`)
	callLine     = regexp.MustCompile(`^( *)(?:(local )?([\w, ]+) = )?(\w+)\((.*)\)$`)
	declaration  = regexp.MustCompile(`^\s*(?:local|for) ([\w, ]+?)(?: =| in |$)`)
	assignment   = regexp.MustCompile(`^\s*([\w, ]+) = `)
	token        = regexp.MustCompile(`'[^']*'|[.:]?\b[A-Za-z_]\w*`) // a string, a field, a name
	simple       = regexp.MustCompile(`^(?:[A-Za-z_]\w*|[\d.]+|'[^']*')$`)
)

// inliner inlines the calls of one text.
type inliner struct {
	functions []*function
	calls     int // inlined so far
}

// inline returns the lines of a text without its comments, with functions in place of their calls, as far as they
// can.
func inline(text string) []string {
	var in inliner
	var others [][]string // lines outside of functions, and nil for each function in its place
	lines := code(text)
	for i := 0; i < len(lines); i++ {
		head := functionHead.FindStringSubmatch(lines[i])
		if head == nil {
			others = append(others, in.line(lines[i]))
			continue
		}
		end := i + slices.Index(lines[i:], "end")
		in.add(head[1], head[2], lines[i+1:end])
		others = append(others, nil)
		i = end
	}

	// From the end: a function has its calls behind it.
	var kept []string
	used := map[string]bool{}
	for i, last := len(others)-1, len(in.functions)-1; i >= 0; i-- {
		lines := others[i]
		if lines == nil {
			f := in.functions[last]
			last--
			if !used[f.name] {
				continue
			}
			lines = f.lines()
		}
		for _, word := range words(lines...) {
			used[word] = true
		}
		kept = append(slices.Clone(lines), kept...)
	}
	return kept
}

// code returns the lines of a text without comments and blank lines, indented as they were.
func code(text string) []string {
	var lines []string
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "   -- ")
		line = strings.TrimRight(line, " \n")
		if line != "" && !isComment(line) {
			lines = append(lines, line)
		}
	}
	return lines
}

func isComment(line string) bool { return strings.HasPrefix(strings.TrimLeft(line, " "), "--") }

// words returns the names, fields and strings of lines, but not those of comments.
func words(lines ...string) (words []string) {
	for _, line := range lines {
		if !isComment(line) {
			words = append(words, token.FindAllString(line, -1)...)
		}
	}
	return words
}

// add adds a function, with the earlier ones in place of their calls.
func (in *inliner) add(name, params string, body []string) {
	f := &function{name: name, params: list(params)}
	for _, line := range body {
		f.body = append(f.body, in.line(line)...)
	}
	last := len(f.body) - 1
	results, found := strings.CutPrefix(f.body[last], "  return ")
	if found {
		f.results, f.body = list(results), f.body[:last]
	}
	f.inlines = !slices.Contains(words(f.body...), "return")
	in.functions = append(in.functions, f)
}

// lines returns the function's definition.
func (f *function) lines() []string {
	lines := []string{fmt.Sprintf("local function %s(%s)", f.name, strings.Join(f.params, ", "))}
	lines = append(lines, f.body...)
	if len(f.results) > 0 {
		lines = append(lines, "  return "+strings.Join(f.results, ", "))
	}
	return append(lines, "end")
}

// line returns a line with functions in place of its calls.
func (in *inliner) line(line string) []string {
	for _, f := range in.functions {
		if len(f.body) == 0 && len(f.results) == 1 {
			line = f.expression(line)
		}
	}
	call := callLine.FindStringSubmatch(line)
	if call == nil {
		return []string{line}
	}
	at := slices.IndexFunc(in.functions, func(f *function) bool { return f.name == call[4] && f.inlines })
	args := list(call[5])
	if at < 0 || args == nil && call[5] != "" {
		return []string{line}
	}
	in.calls++
	lines := []string{"-- " + strings.TrimPrefix(strings.TrimLeft(line, " "), "local ")}
	lines = append(lines, in.functions[at].inlined(call[2] != "", list(call[3]), args, in.calls)...)
	return indented(lines, call[1])
}

// expression returns a line with the function's only expression in place of its calls. An argument that is an
// expression stands where its parameter stood, and is worked out as often.
func (f *function) expression(line string) string {
	start := strings.Index(line, f.name+"(")
	if start < 0 || start > 0 && strings.ContainsAny(line[start-1:start], "._abcdefghijklmnopqrstuvwxyz") {
		return line
	}
	inside := start + len(f.name) + 1
	for end := inside; end < len(line); end++ {
		args := list(line[inside:end])
		if line[end] != ')' || len(args) != len(f.params) {
			continue
		}
		names := map[string]string{}
		for i, param := range f.params {
			names[param] = args[i]
			if !simple.MatchString(args[i]) {
				names[param] = "(" + args[i] + ")"
			}
		}
		return line[:start] + "(" + rename(f.results[0], names) + ")" + f.expression(line[end+1:])
	}
	return line
}

// inlined returns the lines of a call of the function that declares targets or assigns to them.
func (f *function) inlined(declares bool, targets, args []string, number int) []string {
	names, assigned := f.locals(number)
	var lines []string
	for i, param := range f.params {
		if i < len(args) && simple.MatchString(args[i]) && !assigned[param] && names[param] == "" {
			names[param] = args[i]
			continue
		}
		names[param] = numbered(param, number)
		declared := "local " + names[param]
		if i < len(args) {
			declared += " = " + args[i]
		}
		lines = append(lines, declared)
	}

	// A result that is a local of the function is its target itself, if a declared one.
	taken := words(slices.Concat(args, f.results, f.body)...)
	var rest, results []string
	for i, target := range targets {
		result := "nil"
		if i < len(f.results) {
			result = f.results[i]
		}
		own := names[result] == numbered(result, number) && !slices.Contains(f.params, result)
		if declares && own && !slices.Contains(args, target) && (target == result || !slices.Contains(taken, target)) {
			names[result] = target
			continue
		}
		rest, results = append(rest, target), append(results, result)
	}
	for _, line := range f.body {
		lines = append(lines, rename(strings.TrimPrefix(line, "  "), names))
	}
	if len(rest) == 0 {
		return lines
	}
	assign := strings.Join(rest, ", ") + " = " + rename(strings.Join(results, ", "), names)
	if declares {
		assign = "local " + assign
	}
	return append(lines, assign)
}

// locals returns new names of the locals that the function declares, and the names that it assigns to.
func (f *function) locals(number int) (names map[string]string, assigned map[string]bool) {
	names, assigned = map[string]string{}, map[string]bool{}
	for _, line := range f.body {
		if declared := declaration.FindStringSubmatch(line); declared != nil {
			for _, name := range list(declared[1]) {
				names[name] = numbered(name, number)
			}
		} else if left := assignment.FindStringSubmatch(line); left != nil {
			for _, name := range list(left[1]) {
				assigned[name] = true
			}
		}
	}
	return names, assigned
}

// numbered returns the name of a local in the call of a number.
func numbered(name string, number int) string { return fmt.Sprintf("%s_%d", name, number) }

// rename replaces names in a line, but not those in strings and of fields.
func rename(line string, names map[string]string) string {
	return token.ReplaceAllStringFunc(line, func(word string) string {
		if name := names[word]; name != "" {
			return name
		}
		return word
	})
}

// indented returns lines that begin further right.
func indented(lines []string, by string) []string {
	for i := range lines {
		lines[i] = by + lines[i]
	}
	return lines
}

// list splits a list at its commas outside of parentheses; nil where it is none, as in "a) + f(b".
func list(text string) []string {
	var items []string
	depth, start := 0, 0
	for i, c := range text {
		switch {
		case c == '(':
			depth++
		case c == ')':
			depth--
			if depth < 0 {
				return nil
			}
		case c == ',' && depth == 0:
			items = append(items, strings.TrimSpace(text[start:i]))
			start = i + 1
		}
	}
	if depth != 0 || strings.TrimSpace(text) == "" {
		return nil
	}
	return append(items, strings.TrimSpace(text[start:]))
}
