// Package scripts holds the Lua that decides requests inside Redis, one file an algorithm.
//
// A script is put together from fragments, in this order: the clock, the prelude, the kernels it
// needs, the batch. A script that holds only the kernels a batch needs runs faster than one that
// defines them all on every call.
package scripts

import (
	"embed"
	"fmt"
	"slices"
	"strings"
)

//go:embed *.lua
var files embed.FS

// ClockFragment is the name of the fragment that reads the time: microseconds since the Unix epoch
// by Redis's own clock.
const ClockFragment = "clock"

// Fragment returns the text of one Lua file, named without its ending.
func Fragment(name string) (string, error) {
	text, err := files.ReadFile(name + ".lua")
	if err != nil {
		return "", fmt.Errorf("reading script fragment %q: %w", name, err)
	}
	return string(text), nil
}

// Build returns the text of a script with the kernels named, which reads the time by the given
// clock fragment's text (empty: Redis's own TIME). Comments and indentation are left out: Redis
// keeps and, on a first call, receives the whole text.
func Build(clock string, kernels ...string) (string, error) {
	if clock == "" {
		text, err := Fragment(ClockFragment)
		if err != nil {
			return "", err
		}
		clock = text
	}
	var script strings.Builder
	writeLean(&script, clock)
	for _, name := range slices.Concat([]string{"prelude"}, kernels, []string{"batch"}) {
		text, err := Fragment(name)
		if err != nil {
			return "", err
		}
		writeLean(&script, text)
	}
	return script.String(), nil
}

// writeLean appends text without comment lines, indentation and blank lines.
func writeLean(script *strings.Builder, text string) {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "--") {
			continue
		}
		script.WriteString(line)
		script.WriteByte('\n')
	}
}
