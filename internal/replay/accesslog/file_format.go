package accesslog

import "strings"

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
