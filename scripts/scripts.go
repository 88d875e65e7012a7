// Package scripts holds the Lua that decides requests inside Redis, one file an algorithm.
//
// A script is put together from fragments, in this order: the clock, the prelude, the kernels it
// needs, the batch. A script that holds only the kernels a batch needs runs faster than one that
// defines them all on every call. Most batches are takes alone. Their scripts are made of takes.lua, or take_alone.lua, with
// the kernels in it, without their fragments of changes.
package scripts

import (
	"embed"
	"fmt"
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
	names := []string{"prelude", "kernels"}
	for _, name := range kernels {
		names = append(names, name)
		if hasChanges(name) {
			names = append(names, name+changes)
		}
	}
	return join(clock, append(names, "batch"))
}

// changes ends the name of the fragment that has what a kernel's script of takes alone does without.
const changes = "_changes"

func hasChanges(kernel string) bool {
	_, err := files.Open(kernel + changes + ".lua")
	return err == nil
}

// join returns the texts of the clock and of fragments one after the other.
func join(clock string, names []string) (string, error) {
	var text strings.Builder
	for _, name := range names {
		fragment, err := Fragment(name)
		if err != nil {
			return "", err
		}
		text.WriteString(fragment)
	}
	return withClock(clock, text.String())
}

// withClock returns a script behind the clock, without what only people read.
func withClock(clock, text string) (string, error) {
	if clock == "" {
		fragment, err := Fragment(ClockFragment)
		if err != nil {
			return "", err
		}
		clock = fragment
	}
	return lean(clock + "\n" + text), nil
}

// lean returns a text without comment lines, indentation and blank lines.
func lean(text string) string {
	var script strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "--") {
			continue
		}
		script.WriteString(line)
		script.WriteByte('\n')
	}
	return script.String()
}
