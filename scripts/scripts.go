// Package scripts holds the Lua that decides requests inside Redis, one file an algorithm.
//
// A script is put together from fragments, in this order: the clock, the prelude, the kernels it
// needs, the batch. A script that holds only the kernels a batch needs runs faster than one that
// defines them all on every call. Most batches are takes alone. Their script has one kernel without
// what only other operations need (its fragment of changes), and takes.lua instead of the batch.
package scripts

import (
	"embed"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/scripts/internal/takes"
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
		if HasTakes(name) {
			names = append(names, name+changes)
		}
	}
	text, err := join(clock, append(names, "batch"))
	if err != nil {
		return "", err
	}
	return lean(text), nil
}

// changes ends the name of the fragment that has what a kernel's script of takes alone does without.
const changes = "_changes"

// HasTakes reports whether there is a script of takes alone for the kernel.
func HasTakes(kernel string) bool {
	_, err := files.Open(kernel + changes + ".lua")
	return err == nil
}

// BuildTakes returns the text of the script of takes alone with one kernel, for which HasTakes. The clock is
// as for Build.
func BuildTakes(clock, kernel string) (string, error) {
	head, err := join(clock, nil)
	if err != nil {
		return "", err
	}
	text, err := Fragment("takes")
	if err != nil {
		return "", err
	}
	before, after, found := strings.Cut(text, takesPlace)
	if !found {
		return "", errors.New("takes.lua has no place for the kernel")
	}
	_, end, _ := strings.Cut(after, takesEnd)
	bodies, err := takesBodies()
	if err != nil {
		return "", err
	}
	return lean(head + before + bodies[kernel] + "end\n" + end), nil
}

// Prepare does ahead of the first request what BuildTakes needs milliseconds for, once in a process.
func Prepare() { _, _ = takesBodies() } // BuildTakes returns the error

// The lines of takes.lua around the text that stands behind a kernel.
const takesPlace, takesEnd = "  -- The prelude and the kernel.\n", "\nend\n"

// takesBodies are the texts of kernels in takes.lua, by kernel.
var takesBodies = sync.OnceValues(func() (map[string]string, error) {
	text, err := Fragment("takes")
	if err != nil {
		return nil, err
	}
	_, after, _ := strings.Cut(text, takesPlace)
	rest, _, _ := strings.Cut(after, takesEnd)
	entries, err := files.ReadDir(".")
	if err != nil {
		return nil, fmt.Errorf("reading script fragments: %w", err)
	}
	bodies := map[string]string{}
	for _, entry := range entries {
		kernel, found := strings.CutSuffix(entry.Name(), changes+".lua")
		if !found {
			continue
		}
		body, err := join("--", []string{"prelude", kernel})
		if err != nil {
			return nil, err
		}
		bodies[kernel] = policyField.ReplaceAllString(takes.Inline(body+rest), "policy_$1")
	}
	return bodies, nil
})

var policyField = regexp.MustCompile(`\bpolicy\.(\w+)`)

// join returns the texts of the clock and of fragments one after the other.
func join(clock string, names []string) (string, error) {
	if clock == "" {
		names = append([]string{ClockFragment}, names...)
	}
	var text strings.Builder
	text.WriteString(clock + "\n")
	for _, name := range names {
		fragment, err := Fragment(name)
		if err != nil {
			return "", err
		}
		text.WriteString(fragment)
	}
	return text.String(), nil
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
