package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const tableHead = "| server | reader | of | read | with a key | unreadable | one value, two keys | " +
	"read, counted as absent | two values, one key |"

// resultsHead has places for how many inputs, servers and readers there are, the version of Caddy, and the day.
const resultsHead = `# Which keys values have that real frameworks read

` + "`make identity`" + ` sends %d requests, in which one value is spelled in many ways, through a Caddy %s that does nothing but pass
them on, to %d servers with %d readers. It asks a Caddy with this module which keys the same requests have. Inputs of which a
reader has one value must have one key or none, and no reader may have a value of a request that the policy leaves out.
Run on %s. [README.md](../README.md) says how.

- **read:** inputs of the group of which the reader has a value; **with a key:** those with a value in keys; **unreadable:** those
  that this module leaves unread, since readers differ over them.
- **one value, two keys**, and **read, counted as absent:** disagreements that would give one client two quotas, or none. Those
  that are counted here are harmless, for a reason below; any other fails the run.
- **two values, one key:** spellings that share a quota though the reader tells them apart, for a reason below.

Not run, since Debian, npm and Go's modules do not have them: ASP.NET Core, Spring, Phoenix. Rails, Django and the others of
"sid" are those of Debian's next release, which may be behind the newest ones. WordPress is not run, since each of its pages
needs MySQL; PHP and the servers in front find its scripts as they find ` + "`login.php`" + `. Left out are lighttpd's CGI, which
takes long, and what Jetty reads of Authorization, which depends on what its connection carried before.

## Servers

| server | versions |
|---|---|
`

// writeTables writes the results, and the spellings that servers read as one value.
func (h *harness) writeTables(root string) error {
	day := ""
	for _, met := range h.sheets {
		if day == "" || met.day < day {
			day = met.day
		}
	}
	if err := h.writeResults(filepath.Join(root, "parsers", "identity", "results.md"), day); err != nil {
		return err
	}
	return h.writeSpellings(filepath.Join(root, "internal", "replay", "tryout", "spellings.tsv"), day)
}

// writeResults writes what the servers have answered, the first of them on a day.
func (h *harness) writeResults(path, day string) error {
	var page, table strings.Builder
	readers := 0
	for _, s := range list() {
		met := h.sheetOf(s)
		readers += len(readersOf(met.rows))
		for _, w := range met.rows {
			fmt.Fprintf(&table, "| %s | %s | %s | %d | %d | %d | %d | %d | %d |\n", s, cell(w.reader), w.group, w.read, w.keyed, w.unread,
				w.found[twoKeys], w.found[absent], w.found[joined])
		}
	}
	fmt.Fprintf(&page, resultsHead, len(h.inputs), strings.Fields(h.caddy)[0], len(h.sheets), readers, day)
	for _, s := range list() {
		fmt.Fprintf(&page, "| %s | %s |\n", s, h.sheetOf(s).version)
	}
	page.WriteString("\n## Readers\n\n" + tableHead + "\n" + strings.Repeat("|---", strings.Count(tableHead, "|")-1) + "|\n" + table.String())
	page.WriteString("\n## The disagreements that are left\n\nEach is harmless, for the reason that `known.go` has too.\n\n" +
		"| | reason | how many | for example | read | told |\n|---|---|---|---|---|---|\n")
	all := h.disagreements()
	for _, k := range harmless {
		found := slices.DeleteFunc(slices.Clone(all), func(d disagreement) bool { return d.reason != k.reason })
		if len(found) > 0 {
			page.WriteString(found[0].cells(len(found), waysOf(found)))
		}
	}
	return os.WriteFile(path, []byte(page.String()), 0o600)
}

// sheetOf returns what a run has found out about a server of a list.
func (h *harness) sheetOf(s *server) sheet {
	for other, met := range h.sheets {
		if other.String() == s.String() {
			return met
		}
	}
	return sheet{}
}

// readersOf returns the names of readers.
func readersOf(rows []row) (names []string) {
	for _, w := range rows {
		if !slices.Contains(names, w.reader) {
			names = append(names, w.reader)
		}
	}
	return names
}

// cells returns the line of the table about a reason, with a disagreement as the example.
func (d disagreement) cells(times int, ways string) string {
	inputs, values, tells := cell(d.inputs[0].name()), cell(quoteShort(d.values[0])), cell(d.told[0].String())
	if d.kind != absent {
		inputs += " and " + cell(d.inputs[1].name())
	}
	if d.kind == joined {
		values += " and " + cell(quoteShort(d.values[1]))
	}
	if d.kind == twoKeys {
		tells += " and " + cell(d.told[1].String())
	}
	return fmt.Sprintf("| %s | %s | %d, of %s | %s, %s, %s: %s | %s | %s |\n",
		d.kind, d.reason, times, ways, d.server, cell(d.reader), cell(d.policy), inputs, values, tells)
}

// waysOf returns the servers that disagree, or how many there are.
func waysOf(found []disagreement) string {
	const few = 3
	var servers []string
	for _, d := range found {
		if name := d.server.Name; !slices.Contains(servers, name) {
			servers = append(servers, name)
		}
	}
	if len(servers) > few {
		return fmt.Sprintf("%d servers", len(servers))
	}
	slices.SortFunc(servers, cmp.Compare)
	return strings.Join(servers, "; ")
}

// cell returns a text as code in a cell of a table.
func cell(text string) string {
	return "`" + strings.NewReplacer("|", `\|`, "`", "'").Replace(text) + "`"
}
