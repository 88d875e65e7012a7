package accesslog

import (
	"errors"
	"io"
	"math"
	"os"
)

// source is an open file.
type source struct {
	index  int // among the files
	file   io.ReadCloser
	text   io.ReadCloser
	lines  lines
	parser *parser
	window window
	done   bool
	report *FileReport

	malformed func(line Position, reason, text string) // called for each
	long      map[int64]bool                           // lines to leave out: the reader has their requests
}

// open begins to read a file. After an error the source is done.
func (s *source) open(file io.ReadCloser, counted io.Reader) {
	s.file = file
	text, kind, err := unpack(counted)
	s.report.Packing = kind
	if err != nil {
		s.fail(err)
		return
	}
	s.text, s.lines = text, newLines(text)
}

// fail ends the source. The entries in its window stay.
func (s *source) fail(err error) {
	s.done = true
	if errors.Is(err, io.EOF) {
		return
	}
	var path *os.PathError
	if errors.As(err, &path) {
		err = path.Err // the report already names the file
	}
	s.report.Err = err
}

func (s *source) close() {
	if s.text != nil {
		_ = s.text.Close()
	}
	_ = s.file.Close()
}

// fill reads until the window holds so many entries or bytes.
func (s *source) fill(entries, bytes int) {
	for !s.done && (s.window.size() == 0 || s.window.size() < entries && s.window.bytes < bytes) {
		s.step()
	}
}

// step reads a line.
func (s *source) step() {
	text, tooLong, err := s.lines.next()
	if err != nil {
		s.fail(err)
		return
	}
	s.report.Lines++
	if tooLong {
		s.reject("longer than 1 MiB", string(text))
		return
	}
	e, copied := &Entry{}, string(text)
	format, reason := s.parser.parse(copied, e)
	if reason != "" {
		s.reject(reason, copied)
		return
	}
	s.report.Formats[format]++
	if format == Other || s.long[s.report.Lines] {
		return
	}
	e.Line = Position{File: s.report.Name, Line: s.report.Lines}
	e.bytes, e.file = len(copied), s.index
	s.window.push(e)
}

// reject counts a malformed line.
func (s *source) reject(reason, text string) {
	s.report.Malformed++
	s.malformed(Position{File: s.report.Name, Line: s.report.Lines}, reason, text)
}

// beginning returns the earliest time among a file's first lines, or the smallest time if they have none. It
// decides when the file is opened: of a year of daily logs only one or two are open at a time. The parser
// keeps its state from these lines.
func beginning(name string, p *parser) (int64, error) {
	const most, mostBytes = 1000, 1 << 20
	file, err := os.Open(name)
	if err != nil {
		return 0, err
	}
	s := source{
		parser:    p,
		report:    &FileReport{Name: name},
		malformed: func(Position, string, string) {},
	}
	s.open(file, io.LimitReader(file, mostBytes))
	defer s.close()
	for !s.done && s.report.Lines < most && s.window.bytes < mostBytes {
		s.step()
	}
	if first := s.window.first(); first != nil {
		return first.Time, nil
	}
	return math.MinInt64, nil
}
