package report

import "strings"

// Marks around the part of docs/benchmarks.md that make instructions writes. Readers of the page do not see them.
const (
	instructionsBegin = "<!-- make instructions -->\n"
	instructionsEnd   = "<!-- end of make instructions -->\n"
)

// Instructions returns the part of a page that make instructions wrote, with its marks: "" where there is none.
func Instructions(page string) string {
	_, part, begun := strings.Cut(page, instructionsBegin)
	part, _, ended := strings.Cut(part, instructionsEnd)
	if !begun || !ended {
		return ""
	}
	return instructionsBegin + part + instructionsEnd
}

// WithInstructions returns a page with a text of make instructions: in place of the one that is there, or at its end.
func WithInstructions(page, text string) string {
	part := instructionsBegin + "\n" + text + "\n" + instructionsEnd
	if old := Instructions(page); old != "" {
		return strings.Replace(page, old, part, 1)
	}
	return page + "\n" + part
}
