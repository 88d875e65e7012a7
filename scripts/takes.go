package scripts

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// This file makes the scripts of takes. Their frames, takes.lua and take_alone.lua, say what they are.

// Lines of the frames.
const (
	definitions = "-- The prelude and the kernels.\n" // in whose place these stand
	oneKernel   = "one kernel"
	several     = "several checks"
	eachCheck   = "each check"
	eachKernel  = "each kernel"
)

// apart are kernels whose checks meet no check of another kernel in a script of takes.
var apart = []string{"concurrency"}

// MostChecks is the most checks of a request that a script of takes decides.
const MostChecks = 4

// mostKernels is the most kernels of a script of takes, and together is how many may stand in requests of MostChecks: Lua
// functions have up to 200 locals.
const mostKernels, together = 3, 2

var (
	header      = regexp.MustCompile(`^(?:--.*\n)+`)
	only        = regexp.MustCompile(`(?m)^.* -- only (\w+)\n`)
	policyField = regexp.MustCompile(`\bpolicy\.(\w+)`)
	checkNumber = regexp.MustCompile(`\bcheck_number\b`)
	numbered    = regexp.MustCompile(`\b(\w+)_n\b`)
	calendar    = regexp.MustCompile(`\bcalendar_place\b`)
	raised      = regexp.MustCompile(`(?m)^ *error\((.*), 0\)$`)
	answered    = regexp.MustCompile(`(?m)^ *(?:local (\w+) = )?call\((.*)\)$`)
)

// HasTakes reports whether there is a script of takes of kernels, for requests of up to so many checks: 0 to MostChecks. 0 are
// requests of one check, of one kernel, whose weight may pass and that is no look.
func HasTakes(checks int, kernels ...string) bool {
	alike := checks == 0 && len(kernels) == 1
	for _, kernel := range kernels {
		if !hasChanges(kernel) || !alike && slices.Contains(apart, kernel) {
			return false
		}
	}
	return alike || checks > 0 && len(kernels) > 0 && len(kernels) <= mostKernels && checks <= MostChecks-max(0, len(kernels)-together)
}

// BuildTakes returns the text of the script of takes for which HasTakes, with the kernels in the order of their places in
// messages. The clock is as for Build.
func BuildTakes(clock string, checks int, kernels ...string) (string, error) {
	frame, err := readFrame("takes", checks, kernels)
	if err != nil {
		return "", err
	}
	frame = section(frame, oneKernel, len(kernels) == 1)
	frame = section(frame, several, checks > 0)
	frame = calendar.ReplaceAllString(frame, strconv.Itoa(1+slices.Index(kernels, "calendar")))
	text, err := fill(frame, checks, kernels)
	if err != nil {
		return "", err
	}
	return withClock(clock, text)
}

// BuildAlone returns the text of the script of one take of one check, whose weight may pass, for a kernel that has takes of
// several checks. The clock is as for Build.
func BuildAlone(clock, kernel string) (string, error) {
	frame, err := readFrame("take_alone", 1, []string{kernel})
	if err != nil {
		return "", err
	}
	text, err := fill(frame, 0, []string{kernel})
	if err != nil {
		return "", err
	}
	return withClock(clock, returnErrors(strings.Replace(text, "redis.call", "redis.pcall", 1)))
}

// returnErrors has a script of commands that answer their errors return these, and those that it raises, as takes.lua does.
func returnErrors(text string) string {
	const failed = "return {pack('<ddddd', now_us, FAILED, 0, 0, 0), 1, %s}"
	text = answered.ReplaceAllStringFunc(text, func(line string) string {
		parts := answered.FindStringSubmatch(line)
		answer, command := cmp.Or(parts[1], "answer"), parts[2]
		isError := answer + ".err"
		if !strings.HasPrefix(command, "'SET'") { // whose other answer is a table, too
			isError = fmt.Sprintf("type(%s) == 'table'", answer)
		}
		return fmt.Sprintf("local %s = call(%s)\nif %s then\n"+failed+"\nend", answer, command, isError, answer+".err")
	})
	return raised.ReplaceAllString(text, fmt.Sprintf(failed, "${1}"))
}

// readFrame returns the text of a frame, without its header and the lines that are of other kernels only.
func readFrame(name string, checks int, kernels []string) (string, error) {
	if !HasTakes(checks, kernels...) {
		return "", fmt.Errorf("there are no takes of %d checks of %q", checks, kernels)
	}
	frame, err := Fragment(name)
	if err != nil {
		return "", err
	}
	frame = header.ReplaceAllString(frame, "")
	return only.ReplaceAllStringFunc(frame, func(line string) string {
		if slices.Contains(kernels, only.FindStringSubmatch(line)[1]) {
			return line
		}
		return ""
	}), nil
}

// section returns a frame with or without the lines between the marks of a section, and without the marks.
func section(frame, name string, keep bool) string {
	for {
		before, inside, found := strings.Cut(frame, "-- <"+name+"\n")
		if !found {
			return frame
		}
		inside, after, _ := strings.Cut(inside, "-- "+name+">\n")
		if !keep {
			inside = "\n"
		}
		frame = before + inside + after
	}
}

// fill returns the lines of a frame with the kernels, for requests of so many checks.
func fill(frame string, checks int, kernels []string) (string, error) {
	prelude, err := Fragment("prelude")
	if err != nil {
		return "", err
	}
	all := inliner{calls: new(int)}
	head, own := all.define(prelude), make([]inliner, len(kernels))
	shared := all.functions
	for i, name := range kernels {
		kernel, err := Fragment(name)
		if err != nil {
			return "", err
		}
		own[i] = inliner{slices.Clone(shared), all.calls}
		head = append(head, own[i].define(kernel)...)
		all.functions = append(all.functions, own[i].functions[len(shared):]...)
	}
	before, after, _ := strings.Cut(frame, definitions)
	lines := append(code(before), head...)
	for found := true; found; {
		var each string
		before, after, found = strings.Cut(after, "-- <"+eachCheck+"\n")
		lines = append(lines, locals(all.inline(code(before)), "")...)
		each, after, _ = strings.Cut(after, "-- "+eachCheck+">\n")
		for n := 1; n <= checks; n++ {
			lines = append(lines, ofCheck(each, n, all, own)...)
		}
	}
	if name := all.remaining(lines); name != "" {
		return "", fmt.Errorf("%q: call %s on lines of their own, and return in its last line alone", kernels, name)
	}
	return strings.Join(prune(lines), "\n") + "\n", nil
}

// ofCheck returns lines for the n-th check of a request, with the kernel of that check.
func ofCheck(text string, n int, all inliner, own []inliner) (lines []string) {
	suffix := fmt.Sprintf("_of_%d", n)
	text = numbered.ReplaceAllString(checkNumber.ReplaceAllString(text, strconv.Itoa(n)), "${1}"+suffix)
	for found := true; found; {
		var before, block string
		before, text, found = strings.Cut(text, "-- <"+eachKernel+"\n")
		lines = append(lines, locals(all.inline(code(before)), suffix)...)
		block, text, _ = strings.Cut(text, "-- "+eachKernel+">\n")
		lines = append(lines, choose(own, code(block), suffix)...)
	}
	return lines
}

// choose returns the lines of each kernel, of which the script runs those of the check's own.
func choose(own []inliner, block []string, suffix string) (lines []string) {
	if len(block) == 0 {
		return nil
	}
	for i := range own {
		switch {
		case len(own) == 1:
		case i == 0:
			lines = append(lines, "if kernel"+suffix+" == 1 then")
		case i < len(own)-1:
			lines = append(lines, fmt.Sprintf("elseif kernel%s == %d then", suffix, i+1))
		default:
			lines = append(lines, "else")
		}
		lines = append(lines, locals(own[i].inline(block), suffix)...)
	}
	if len(own) > 1 {
		lines = append(lines, "end")
	}
	return lines
}

// locals returns lines with locals in place of a policy's fields.
func locals(lines []string, suffix string) []string {
	for i, line := range lines {
		if strings.Contains(line, "policy.") {
			lines[i] = policyField.ReplaceAllString(line, "policy_${1}"+suffix)
		}
	}
	return lines
}
