package main

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

const tableHead = "| server | versions | ways to read | requests | accepted | value told and read | read, none told | disagreements |"

// resultsHead has places for how many samples and servers there are, and for the day.
const resultsHead = `# Which values real frameworks read from ambiguous bodies

` + "`make parsers`" + ` sends %d requests to each of these %d servers and compares what they read with what this module tells of the
same requests. A value counts only if each parser that takes the body reads this one, and no parser may read one where this
module says that there is none. Run on %s. [README.md](README.md) says how.

- **ways to read:** the names of them are in ` + "`list.go`" + `.
- **requests:** sent to all ways of a server; **accepted:** those that the server did not refuse.
- **value told and read:** both have the same value; where blanks do not count, as a key.
- **read, none told:** the framework reads a value, and this module leaves it unread, since parsers differ over such bodies.
- **disagreements:** those below.

`

// writeResults writes what the servers have answered.
func (h *harness) writeResults(path string) error {
	var page strings.Builder
	fmt.Fprintf(&page, resultsHead, len(h.samples), len(h.rows), time.Now().Format(time.DateOnly))
	page.WriteString(tableHead + "\n" + strings.Repeat("|---", strings.Count(tableHead, "|")-1) + "|\n")
	var sum row
	for _, s := range list() {
		for r, w := range h.rows {
			if r.String() == s.String() {
				fmt.Fprintf(&page, "| %s | %s | %d | %d | %d | %d | %d | %d |\n",
					s, w.version, w.ways, w.asked, w.accepted, w.equal, w.stricter, w.differing)
				sum.add(&w)
			}
		}
	}
	fmt.Fprintf(&page, "| all | | %d | %d | %d | %d | %d | %d |\n",
		sum.ways, sum.asked, sum.accepted, sum.equal, sum.stricter, sum.differing)
	page.WriteString("\n## The disagreements that are left\n\nEach is harmless, for the reason that `known.go` has too.\n\n" +
		"| the framework reads | answers | for example | told | read |\n|---|---|---|---|---|\n")
	for _, k := range harmless {
		if found := h.foundFor(k.reason); len(found) > 0 {
			d := found[0]
			fmt.Fprintf(&page, "| %s | %d, of %s | %s, %s: %s | %s | %s |\n", k.reason, len(found), waysOf(found),
				d.server, d.way, cell(d.sample.name), cell(d.told.String()), cell(d.answer.String()))
		}
	}
	return os.WriteFile(path, []byte(page.String()), 0o600)
}

// add adds the numbers of another row.
func (w *row) add(other *row) {
	w.ways += other.ways
	w.asked += other.asked
	w.accepted += other.accepted
	w.equal += other.equal
	w.stricter += other.stricter
	w.differing += other.differing
}

// foundFor returns the disagreements with a reason, in an order that does not depend on the run.
func (h *harness) foundFor(reason string) (found []disagreement) {
	for _, d := range h.found {
		if d.reason == reason {
			found = append(found, d)
		}
	}
	slices.SortFunc(found, func(a, b disagreement) int {
		return cmp.Or(cmp.Compare(a.sample.name, b.sample.name), cmp.Compare(a.server, b.server), cmp.Compare(a.way, b.way))
	})
	return found
}

// waysOf returns the servers that disagree, or how many there are.
func waysOf(found []disagreement) string {
	const few = 3
	var servers []string
	for _, d := range found {
		if !slices.Contains(servers, d.server) {
			servers = append(servers, d.server)
		}
	}
	if len(servers) > few {
		return fmt.Sprintf("%d servers", len(servers))
	}
	slices.Sort(servers)
	return strings.Join(servers, "; ")
}

// cell returns a text as code in a cell of a table.
func cell(text string) string {
	return "`" + strings.NewReplacer("|", `\|`, "`", "'").Replace(text) + "`"
}
