package accesslog

import (
	"strings"
	"time"
)

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

// formats are all formats. The first that recognizes a file's first line is that of the file. The last one recognizes
// any text.
var formats = []format{caddyJSON, commonLogFormat}

// FormatNames names all formats in a sentence.
func FormatNames() string {
	var names []string
	for _, f := range formats {
		names = append(names, f.called)
	}
	return strings.Join(names, ", ")
}

// fileFormat is the format of one file. It is decided by the first line that is not blank, and again only by a line that
// it does not recognize, as in files that were joined.
type fileFormat struct {
	options *Options
	readers []lineReader // of formats; nil before they are asked
	current lineReader
}

// byteOrderMark begins the files of some programs.
const byteOrderMark = "\ufeff"

// read reads a line into an empty entry, as [lineReader] does.
func (f *fileFormat) read(text string, e *Entry) (name, reason string) {
	text = strings.TrimLeft(strings.TrimPrefix(text, byteOrderMark), " \t")
	if text == "" {
		return "", ""
	}
	if f.current == nil || !f.current.recognizes(text) {
		f.decide(text)
	}
	name, reason = f.current.read(text, e)
	if reason == "" && name != "" && !plausible(e.Time) {
		return name, noSuchDay
	}
	return name, reason
}

// decide decides the format by a line.
func (f *fileFormat) decide(line string) {
	if f.readers == nil {
		f.readers = make([]lineReader, len(formats))
	}
	for i := range formats {
		if f.readers[i] == nil {
			f.readers[i] = formats[i].newReader(f.options)
		}
		if f.current = f.readers[i]; f.current.recognizes(line) {
			return
		}
	}
}

// Times outside count as errors: no access log is older.
var (
	earliest = time.Date(1990, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
	latest   = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
)

const noSuchDay = "a time before 1990 or after 2099"

// plausible reports whether microseconds since the Unix epoch are within these bounds.
func plausible(micros int64) bool { return micros >= earliest && micros < latest }
