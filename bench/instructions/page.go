package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/bench/report"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/bench/serve"
)

// pageFile returns the page that is to get the table.
func (o options) pageFile() string { return filepath.Join(o.out, "benchmarks.md") }

// partial returns why a run is not one for the page, which tells of all rows beside one commit: "" if it is.
func (o options) partial() string {
	switch {
	case o.rows.String() != "":
		return "not all rows were to be measured"
	case o.base != defaultBase:
		return "it compares with " + defaultBase
	}
	return ""
}

// findPage returns an error if the page does not exist: a long run would be for nothing.
func (o options) findPage() error {
	if o.out == "" {
		return nil
	}
	_, err := os.Stat(o.pageFile())
	return err
}

// publish writes the table into the page, unless a row is missing.
func (o options) publish(ctx context.Context, lines []line, builds [2]build) error {
	reason := o.partial()
	for _, l := range lines {
		if l.err != nil {
			reason = l.name + " was not measured"
		}
	}
	if reason != "" {
		progress("%s keeps its table of instructions: %s", o.pageFile(), reason)
		return nil
	}
	page, err := os.ReadFile(o.pageFile())
	if err != nil {
		return err
	}
	text := report.WithInstructions(string(page), chapter(o.facts(ctx, builds), lines, builds))
	return os.WriteFile(o.pageFile(), []byte(text), 0o644)
}

// facts returns what was measured, where and when.
func (o options) facts(ctx context.Context, builds [2]build) [][2]string {
	return [][2]string{
		{"date", time.Now().UTC().Format(time.DateOnly)},
		{"commits", fmt.Sprintf("%s beside %s, %s requests of a row of redis-server, %s of a row of Caddy", builds[1].name, builds[0].name,
			report.Thousands(float64(o.requests)), report.Thousands(float64(o.served)))},
		{"machine", runtime.GOOS + "/" + runtime.GOARCH},
		{"versions", strings.Join([]string{
			"Go " + strings.TrimPrefix(runtime.Version(), "go"),
			"Redis " + serve.Found(ctx, `v=(\S+)`, "redis-server", "--version"),
			"Caddy " + serve.Found(ctx, `\S+`, "go", "-C", filepath.Join(o.root, "bench"), "list", "-m", "-f", "{{.Version}}",
				"github.com/caddyserver/caddy/v2"),
			"valgrind " + serve.Found(ctx, `valgrind-(\S+)`, "valgrind", "--version"),
		}, ", ")},
	}
}

const introduction = "## Instructions\n\n" +
	"What a request takes in redis-server and in Caddy, outside of the kernel, by valgrind's callgrind: the mean of two processes. " +
	"Redis gets the bytes that each commit's Caddy sends for 64 clients; a row's last number is how many requests leave together. " +
	"Written by `make instructions`.\n\n"

// chapter returns the part of the page.
func chapter(facts [][2]string, lines []line, builds [2]build) string {
	var b strings.Builder
	b.WriteString(introduction)
	write := func(format string, args ...any) { fmt.Fprintf(&b, format, args...) }
	for _, f := range facts {
		write("- %s: %s\n", f[0], f[1])
	}
	for _, sentence := range compared(lines) {
		write("- %s\n", sentence)
	}
	write("\n|redis-server|%s|%s|ratio|\n|---|--:|--:|--:|\n", builds[0].name, builds[1].name)
	var bare *line
	for i, l := range lines {
		if l.name == plain {
			bare = &lines[i]
			write("\n|Caddy|%s|%s|ratio|over plain, %[1]s|%[2]s|ratio|\n|---|--:|--:|--:|--:|--:|--:|\n", builds[0].name, builds[1].name)
		}
		write("|%s|\n", l.pageCells(bare))
	}
	return b.String()
}

// pageCells returns the cells of a row, of which those of Caddy have what a request takes more than that of a plain Caddy.
func (l line) pageCells(bare *line) string {
	base, now := l.means()
	_, cells, _ := strings.Cut(l.name, "/")
	if note := l.note(); note != "" {
		cells += " (" + note + ")"
	}
	cells += fmt.Sprintf("|%s|%s|%s", report.Thousands(base), report.Thousands(now), ratio(base, now))
	if bare == nil {
		return cells
	}
	if l.name == plain {
		return cells + "|||"
	}
	base, now = l.over(*bare)
	return cells + fmt.Sprintf("|%s|%s|%s", report.Thousands(base), report.Thousands(now), ratio(base, now))
}

// The rows that the page compares with each other.
const (
	rowMixed = "redis/63+two/counters/64"
	rowAlone = "redis/counter/64"
	rowOne   = "caddy/one"
	rowTwo   = "caddy/two"
	rowFour  = "caddy/four"
)

// compared returns sentences on rows of one build beside each other.
func compared(lines []line) []string {
	by := map[string]line{}
	for _, l := range lines {
		by[l.name] = l
	}
	mixedBase, mixedNow := by[rowMixed].means()
	aloneBase, aloneNow := by[rowAlone].means()
	secondBase, secondNow := by[rowTwo].over(by[rowOne])
	furtherBase, furtherNow := by[rowFour].over(by[rowTwo])
	return []string{
		fmt.Sprintf("63 requests of one policy and one of two, in Redis: %s of 64 requests of one, now %s.",
			ratio(aloneBase, mixedBase), ratio(aloneNow, mixedNow)),
		fmt.Sprintf("The second policy in Caddy: %s, now %s. The third and the fourth, each: %s, now %s.", report.Thousands(secondBase),
			report.Thousands(secondNow), report.Thousands(furtherBase/2), report.Thousands(furtherNow/2)),
	}
}
