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
//	local r = rest(policy.limit, c)   ->  local limit_1 = policy.limit
//	                                      local r = limit_1 - c
//
// It knows no Lua, only lines. It replaces lines that are nothing but a call, an assignment of one or a
// declaration by one, of functions at the beginning of a line that return nowhere but in their last line, if at
// all. Functions that are nothing but an expression stand in place of their calls everywhere. Other calls stay, and are
// an error of who writes the script: remaining finds them. Names of locals get a number, so that none hides another. Tables
// with names as keys are beyond it.

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
	plainLocal   = regexp.MustCompile(`^(\s*)local (\w+(?:, \w+)*)(?: = (.*[^,]))?$`)
	simple       = regexp.MustCompile(`^(?:[A-Za-z_]\w*|[\d.]+|'[^']*')$`)
)

// inliner sets functions in place of their calls.
type inliner struct {
	functions []*function
	calls     *int // inlined so far, of all inliners of a script
}

// define adds the functions of a text, each with the earlier ones in place of its calls, and returns the lines outside
// of functions.
func (in *inliner) define(text string) (others []string) {
	lines := code(text)
	for i := 0; i < len(lines); i++ {
		head := functionHead.FindStringSubmatch(lines[i])
		if head == nil {
			others = append(others, lines[i])
			continue
		}
		end := i + slices.Index(lines[i:], "end")
		in.add(head[1], head[2], lines[i+1:end])
		i = end
	}
	return others
}

// inline returns lines with functions in place of their calls.
func (in *inliner) inline(lines []string) (inlined []string) {
	for _, line := range lines {
		inlined = append(inlined, in.line(line)...)
	}
	return inlined
}

// code returns the lines of a text without comments and blank lines, indented as they were. A line that ends in a comma or
// an equals sign is one with the next.
func code(text string) []string {
	var lines []string
	goesOn := false
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "   -- ")
		line = strings.TrimRight(line, " \n")
		switch trimmed := strings.TrimLeft(line, " "); {
		case trimmed == "" || strings.HasPrefix(trimmed, "--"):
			continue
		case goesOn:
			lines[len(lines)-1] += " " + trimmed
		default:
			lines = append(lines, line)
		}
		goesOn = strings.HasSuffix(line, ",") || strings.HasSuffix(line, "=")
	}
	return lines
}

// words returns the names of lines, their fields with the dot in front, and their strings with their quotes.
func words(lines ...string) (words []string) {
	for _, line := range lines {
		eachWord(line, func(begin, end int) { words = append(words, line[begin:end]) })
	}
	return words
}

// eachWord calls a function with the beginning and the end of each word of a line.
func eachWord(line string, is func(begin, end int)) {
	for i := 0; i < len(line); {
		begin := i
		switch c := line[i]; {
		case c == '\'':
			i += 2 + strings.IndexByte(line[i+1:], '\'')
			is(begin, i)
		case isOfWord(c):
			for i < len(line) && isOfWord(line[i]) {
				i++
			}
			if begin > 0 && (line[begin-1] == '.' || line[begin-1] == ':') {
				is(begin-1, i)
			} else if c < '0' || c > '9' {
				is(begin, i)
			}
		default:
			i++
		}
	}
}

// isOfWord reports whether a byte is of a name or a number.
func isOfWord(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// remaining returns the name of a function that lines still call; empty: none.
func (in *inliner) remaining(lines []string) string {
	for _, word := range words(lines...) {
		if slices.ContainsFunc(in.functions, func(f *function) bool { return f.name == word }) {
			return word
		}
	}
	return ""
}

// prune leaves out locals that no line reads. It knows declarations of as many names as expressions without a call of
// a command.
func prune(lines []string) []string {
	used := map[string]int{}
	for _, word := range words(lines...) {
		used[word]++
	}
	for pruned := true; pruned; {
		pruned = false
		for i, line := range lines {
			left := pruneLine(line, used)
			if left == line {
				continue
			}
			pruned, lines[i] = true, left
			for _, word := range words(line) {
				used[word]--
			}
			for _, word := range words(left) {
				used[word]++
			}
		}
	}
	return slices.DeleteFunc(lines, func(line string) bool { return line == "" })
}

// pruneLine returns a line without the locals that are used once, which is where they are declared; empty: without any.
func pruneLine(line string, used map[string]int) string {
	if !strings.Contains(line, "local ") {
		return line
	}
	parts := plainLocal.FindStringSubmatch(line)
	if len(parts) == 0 || strings.Contains(parts[3], "call(") {
		return line
	}
	names, values := list(parts[2]), list(parts[3])
	if len(names) != len(values) && len(values) > 0 {
		return line
	}
	var keptNames, keptValues []string
	for i, name := range names {
		if used[name] == 1 {
			continue
		}
		keptNames = append(keptNames, name)
		if len(values) > 0 {
			keptValues = append(keptValues, values[i])
		}
	}
	if len(keptNames) == 0 {
		return ""
	}
	line = parts[1] + "local " + strings.Join(keptNames, ", ")
	if len(keptValues) > 0 {
		line += " = " + strings.Join(keptValues, ", ")
	}
	return line
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

// line returns a line with functions in place of its calls.
func (in *inliner) line(line string) []string {
	if !strings.Contains(line, "(") {
		return []string{line}
	}
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
	*in.calls++
	return indented(in.functions[at].inlined(call[2] != "", list(call[3]), args, *in.calls), call[1])
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
		names[param] = withNumber(param, number)
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
		own := names[result] == withNumber(result, number) && !slices.Contains(f.params, result)
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
				names[name] = withNumber(name, number)
			}
		} else if left := assignment.FindStringSubmatch(line); left != nil {
			for _, name := range list(left[1]) {
				assigned[name] = true
			}
		}
	}
	return names, assigned
}

// withNumber returns the name of a local in the call of a number.
func withNumber(name string, number int) string { return fmt.Sprintf("%s_%d", name, number) }

// rename replaces names in a line, but not those in strings and of fields.
func rename(line string, names map[string]string) string {
	var renamed strings.Builder
	written := 0
	eachWord(line, func(begin, end int) {
		if name := names[line[begin:end]]; name != "" {
			renamed.WriteString(line[written:begin])
			renamed.WriteString(name)
			written = end
		}
	})
	if written == 0 {
		return line
	}
	renamed.WriteString(line[written:])
	return renamed.String()
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
