package accesslog

import (
	"slices"
	"strings"
)

// fileFormat is the format of one file: what its lines are wrapped in, and how its texts and its JSON are read. Each is
// decided once, by the first lines of the file; a text or JSON that appears only later decides for itself, as in files
// that were joined.
type fileFormat struct {
	hints     hints
	asked     *Format // nil finds out which it is
	decided   bool
	envelopes []*opener // the outermost first
	text      lineReader
	json      lineReader
}

// byteOrderMark begins the files of some programs.
const byteOrderMark = "\ufeff"

// trimLine returns a line without a byte order mark and the blanks before it.
func trimLine(line string) string {
	return strings.TrimLeft(strings.TrimPrefix(line, byteOrderMark), " \t")
}

// decide decides by the first lines of a file.
func (f *fileFormat) decide(lines []string) {
	f.decided = true
	lines = nonBlank(lines)
	const deepest = 3
	for range deepest {
		if f.asked != nil && most([]lineReader{f.asked.format.newReader(f.hints)}, some(lines)) != nil {
			break // its lines may begin as an envelope does
		}
		o := findEnvelope(lines)
		if o == nil {
			break
		}
		f.envelopes = append(f.envelopes, o)
		lines = nonBlank(o.openAll(lines))
	}
	if f.asked != nil {
		f.text = f.asked.format.newReader(f.hints)
		f.json = f.text
		learn(f.text, lines)
		return
	}
	var texts, objects []string
	for _, line := range lines {
		if line[0] == '{' {
			objects = append(objects, line)
		} else {
			texts = append(texts, line)
		}
	}
	if len(texts) > 0 {
		f.text = choose(textFormats, f.hints, texts)
	}
	if len(objects) > 0 {
		f.json = choose(jsonFormats, f.hints, objects)
	}
}

// nonBlank returns the lines that are not blank, trimmed.
func nonBlank(lines []string) (kept []string) {
	for _, line := range lines {
		if line = trimLine(line); line != "" {
			kept = append(kept, line)
		}
	}
	return kept
}

// choose returns a reader of the first format that recognizes more than half of the lines that any format does. Without one
// it is the last, whose faults say what is wrong.
func choose(formats []format, h hints, lines []string) lineReader {
	readers := make([]lineReader, len(formats))
	for i := range formats {
		readers[i] = formats[i].newReader(h)
	}
	chosen := most(readers, some(lines))
	if chosen == nil {
		chosen = most(readers, lines)
	}
	if chosen == nil {
		chosen = readers[len(readers)-1]
	}
	learn(chosen, lines)
	return chosen
}

// some returns every so many lines: enough to tell their format.
func some(lines []string) (chosen []string) {
	const enough = 50
	for i := 0; i < len(lines); i += 1 + len(lines)/enough {
		chosen = append(chosen, lines[i])
	}
	return chosen
}

// most returns the first reader that recognizes more than half of the lines that any of them does; nil if none does.
func most(readers []lineReader, lines []string) lineReader {
	counts := make([]int, len(readers))
	for i := range readers {
		for _, line := range lines {
			if readers[i].recognizes(line) {
				counts[i]++
			}
		}
	}
	for i := range readers {
		if counts[i]*2 > slices.Max(counts) {
			return readers[i]
		}
	}
	return nil
}

// learn shows the first lines of a file to a reader that wants to see them.
func learn(r lineReader, lines []string) {
	if l, ok := r.(learner); ok {
		l.learn(lines)
	}
}

// read reads a line into an empty entry, as [lineReader] does.
func (f *fileFormat) read(text string, e *Entry) (name string, why fault) {
	text = trimLine(text)
	for _, o := range f.envelopes {
		if text == "" {
			break
		}
		if text, why = o.unwrap(text); why != noFault {
			return o.called, why
		}
		text = trimLine(text)
	}
	if text == "" {
		return "", blankLine
	}
	name, why = f.readerOf(text).read(text, e)
	if why == noFault && !plausible(e.Time) {
		return name, noSuchDay
	}
	return name, why
}

// readerOf returns the reader of a text or of JSON.
func (f *fileFormat) readerOf(line string) lineReader {
	kind, formats := &f.text, textFormats
	if line[0] == '{' {
		kind, formats = &f.json, jsonFormats
	}
	if *kind == nil {
		*kind = choose(formats, f.hints, []string{line})
	}
	return *kind
}

// clientPlace says where the lines have the client, as far as they were decided to be texts.
func (f *fileFormat) clientPlace() string {
	if p, ok := f.text.(placer); ok {
		return p.clientPlace()
	}
	return ""
}
