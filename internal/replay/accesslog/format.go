package accesslog

import "time"

// format is a format of access logs. A new one is a file of this package, and a line in formats.
type format struct {
	// called is what sentences call the format.
	called string

	// newReader returns the reader of one file.
	newReader func(o *Options) lineReader
}

// lineReader reads the lines of one file in one format. State of a line makes the next one cheaper.
type lineReader interface {
	// recognizes reports whether the format has such lines. A line is never blank, and does not begin with blanks. A
	// format whose lines say nothing by themselves, such as one with the names of its fields in the first line, answers
	// by the lines that it has read.
	recognizes(line string) bool

	// read reads a line into an empty entry. It returns what reports call the format of the line; nothing for a
	// well-formed line without a request, such as a message of the server or a connection that sent no request. A
	// malformed line has a reason.
	read(line string, e *Entry) (name, reason string)
}

// Times outside count as errors: no access log is older.
var (
	earliest = time.Date(1990, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
	latest   = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
)

const noSuchDay = "a time before 1990 or after 2099"

// plausible reports whether microseconds since the Unix epoch are within these bounds.
func plausible(micros int64) bool { return micros >= earliest && micros < latest }
