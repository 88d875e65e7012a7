package accesslog

// fault is why a line is no request; the zero value is none.
type fault struct {
	kind  string // constant text, so that there are few
	other bool   // the line is well-formed and no request, as a message of the server; not malformed
}

// malformed is the fault of a line that cannot be read.
func malformed(kind string) fault { return fault{kind: kind} }

// isForeign reports whether a line is none of the format at all.
func (f fault) isForeign() bool { return f == foreignJSON || f == brokenJSON || f == notJSON }

// otherLine is the fault of a line that says something else than a request.
func otherLine(kind string) fault { return fault{kind: kind, other: true} }

// What lines are that are no requests.
var (
	noFault      fault
	blankLine    = otherLine("a blank line")
	emptyRequest = otherLine("a connection that sent no request")
	directive    = otherLine("a line about the log itself")
	firstPart    = otherLine("the first part of a line that goes on in the next")
	foreignJSON  = malformed("JSON of an unknown program; name its fields with --fields")
)
