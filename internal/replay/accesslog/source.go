package accesslog

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/display"
)

// maxLine is the length of the longest line that is read, in bytes. A longer one is malformed, and never in
// memory as a whole.
const maxLine = 1 << 20

// source is one of the files, before it is opened and then.
type source struct {
	index     int   // among the files
	begins    int64 // the time of its first entry
	format    fileFormat
	timed     bool // a request had a duration
	report    *FileReport
	malformed func(f *FileReport, reason, text string) // called for each
	long      map[int64]bool                           // lines whose requests [Reader.readAhead] has kept

	file   io.ReadCloser // before it is opened, only what cannot be opened twice, such as a pipe
	text   io.ReadCloser
	lines  *bufio.Reader
	window window
	done   bool
}

// newSource finds out when a file begins. A stream that cannot be read twice counts as the earliest.
func newSource(index int, name string, o *Options) (*source, error) {
	s := &source{index: index, begins: math.MinInt64, format: fileFormat{options: o}}
	if name == "-" {
		if o.Stdin == nil {
			return nil, errors.New("there is no standard input to read")
		}
		s.file, o.Stdin = io.NopCloser(o.Stdin), nil
		return s, nil
	}
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, fmt.Errorf("%s is a directory", display.EscapeShort(name, 200))
	case !info.Mode().IsRegular():
		s.file, err = os.Open(name)
		return s, err
	}
	err = s.findBeginning(name)
	return s, err
}

// findBeginning reads a file's first lines for the earliest time among them; without one the file counts as the
// earliest. It decides when the file is opened: of a year of daily logs only one or two are open at a time. The
// format keeps its state from these lines.
func (s *source) findBeginning(name string) error {
	const most, mostBytes = 1000, 1 << 20
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	first := source{format: s.format, report: &FileReport{Name: name}, malformed: func(*FileReport, string, string) {}, file: file}
	first.open(io.LimitReader(file, mostBytes))
	defer first.close()
	for !first.done && first.report.Lines < most && first.window.bytes < mostBytes {
		first.step()
	}
	if s.format, s.timed = first.format, first.timed; first.window.size() > 0 {
		s.begins = first.window.first().Time
	}
	return nil
}

// open begins to read what is packed. After an error the source is done.
func (s *source) open(packed io.Reader) {
	text, kind, err := unpack(packed)
	s.report.Packing = kind
	if err != nil {
		s.fail(err)
		return
	}
	s.text, s.lines = text, bufio.NewReaderSize(text, maxLine+2)
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
	for _, c := range []io.Closer{s.text, s.file} {
		if c != nil {
			_ = c.Close()
		}
	}
}

// fill reads until the window holds so many entries or bytes.
func (s *source) fill(entries, bytes int) {
	for !s.done && (s.window.size() == 0 || s.window.size() < entries && s.window.bytes < bytes) {
		s.step()
	}
}

// step reads a line.
func (s *source) step() {
	text, tooLong, err := s.line()
	if err != nil {
		s.fail(err)
		return
	}
	s.report.Lines++
	e, copied := &Entry{line: s.report.Lines, file: s.index}, string(text)
	if s.report.First == "" {
		s.report.First = display.EscapeShort(strings.TrimSpace(strings.TrimPrefix(copied, byteOrderMark)), shownText)
	}
	name, reason := "", "longer than 1 MiB"
	if !tooLong {
		name, reason = s.format.read(copied, e)
	}
	if reason != "" {
		s.report.Malformed++
		s.malformed(s.report, reason, copied)
		return
	}
	if name == "" {
		s.report.Other++
		return
	}
	s.report.countFormat(name)
	s.timed = s.timed || e.Ends != 0
	if !s.long[e.line] {
		e.bytes = len(copied)
		s.window.push(e)
	}
}

// line returns a line without its end, valid until the next call. It returns the beginning of a line that is too
// long. The line at which reading fails is lost, because it may be incomplete.
func (s *source) line() (line []byte, tooLong bool, err error) {
	line, err = s.lines.ReadSlice('\n')
	switch {
	case err == nil, errors.Is(err, io.EOF) && len(line) > 0:
		line = bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
		return line, len(line) > maxLine, nil
	case !errors.Is(err, bufio.ErrBufferFull):
		return nil, false, err
	}
	line = bytes.Clone(line[:shownText*4])
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = s.lines.ReadSlice('\n')
	}
	if errors.Is(err, io.EOF) {
		err = nil // the next call returns it
	}
	return line, true, err
}
