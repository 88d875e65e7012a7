package accesslog

import "time"

// format is a format of access logs. A new one is a file of this package, and a line in formats.
type format struct {
	// name is what --format calls the format; empty for one that cannot be asked for.
	name string

	// program is whose log it is, for a list of programs; empty for a format of many.
	program string

	// newReader returns the reader of one file.
	newReader func(o *Options) lineReader
}

// lineReader reads the lines of one file in one format. State of a line makes the next one cheaper.
type lineReader interface {
	// recognizes reports whether a line is surely one of the format. A line is never blank, and does not begin with
	// blanks.
	recognizes(line string) bool

	// read reads a line into an empty entry. It returns what reports call the format of the line, and why the line is no
	// request.
	read(line string, e *Entry) (name string, why fault)
}

// learner is a [lineReader] that decides by the first lines of a file what their parts mean, and does so once.
type learner interface {
	learn(lines []string)
}

// placer is a [lineReader] that can say where its lines have the client, in words for a sentence.
type placer interface {
	clientPlace() string
}

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

// moment is what the time in a line is.
type moment uint8

const (
	unknownMoment moment = iota // of the start or the end of the request, which the format does not tell
	startMoment
	endMoment
)

// Clock says what the times of a file are.
type Clock struct {
	moment moment
	coarse bool
}

// String returns the words for a sentence.
func (c Clock) String() string {
	text := map[moment]string{
		unknownMoment: "the start or the end of requests, which the format does not tell",
		startMoment:   "the start of requests", endMoment: "the end of requests",
	}[c.moment]
	if c.coarse {
		text += ", in whole seconds"
	}
	return text
}

// setTime sets a time that a line has, in microseconds, and what that is. It must come before setDuration.
func (e *Entry) setTime(micros int64, m moment, coarse bool) {
	e.Time, e.clock = micros, Clock{m, coarse}
}

// setDuration sets how long a request took, in microseconds: a time of its end makes one of its start. Where the format
// does not tell which of the two its time is, the duration says nothing.
func (e *Entry) setDuration(micros int64) {
	if micros < 0 || micros > longestRequest.Microseconds() {
		return
	}
	switch e.clock.moment {
	case startMoment:
		e.Ends = e.Time + micros
	case endMoment:
		e.Ends = e.Time
		e.Time -= micros
	case unknownMoment:
	}
}

// Times outside count as errors: no access log is older.
var (
	earliest = time.Date(1990, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
	latest   = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
)

var noSuchDay = malformed("a time before 1990 or after 2099")

// plausible reports whether microseconds since the Unix epoch are within these bounds.
func plausible(micros int64) bool { return micros >= earliest && micros < latest }
