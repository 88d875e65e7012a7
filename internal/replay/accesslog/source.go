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
	"sync/atomic"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/display"
)

// maxLine is the length of the longest line that is read, in bytes. A longer one is malformed, and never in
// memory as a whole.
const maxLine = 1 << 20

var tooLongLine = malformed("longer than 1 MiB")

// source is one of the files, before it is opened and then.
type source struct {
	index   int   // among the files
	begins  int64 // the time of its first entry
	size    int64 // in bytes, packed as it is; 0: a stream
	format  fileFormat
	timed   bool // a request had a duration
	coarse  bool // a request's time was in whole seconds
	report  *FileReport
	skipped func(f *FileReport, why fault, text string) // called for each line that is no request
	long    map[int64]bool                              // lines whose requests [Reader.readAhead] has kept

	file   io.ReadCloser // before it is opened, only what cannot be opened twice, such as a pipe
	text   io.ReadCloser
	lines  *bufio.Reader
	window window
	spread *spreader // of times in whole seconds; nil to leave them
	done   bool
}

// newSource finds out when a file begins. A stream that cannot be read twice counts as the earliest.
func newSource(index int, name string, o *ReaderOptions) (*source, error) {
	s := &source{index: index, begins: math.MinInt64, format: newFileFormat(o)}
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
	s.size, err = info.Size(), s.findBeginning(name)
	return s, err
}

// counted is a file of which the bytes are counted that are read.
type counted struct {
	io.Reader
	read *atomic.Int64
}

// Read implements [io.Reader].
func (c counted) Read(space []byte) (int, error) {
	n, err := c.Reader.Read(space)
	c.read.Add(int64(n))
	return n, err
}

// findBeginning reads a file's first lines for the earliest time among them; without one the file counts as the
// earliest. It decides when the file is opened: of a year of daily logs only one or two are open at a time. The
// format keeps its state from these lines.
func (s *source) findBeginning(name string) error {
	const mostBytes = 1 << 20
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	first := source{format: s.format, report: &FileReport{Name: name}, skipped: func(*FileReport, fault, string) {}, file: file}
	first.open(io.LimitReader(file, mostBytes))
	defer first.close()
	first.decide()
	for !first.done && first.report.Lines < maxSample && first.window.bytes < mostBytes {
		first.step()
	}
	if s.format, s.timed, s.coarse = first.format, first.timed, first.coarse; first.window.size() > 0 {
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

// maxSample is the number of the first lines of a file that decide its format, in lines.
const maxSample = 1000

// decide decides the format by the first lines, at most a million bytes, which are read again afterwards.
func (s *source) decide() {
	if s.done || s.format.decided {
		return
	}
	text, _ := s.lines.Peek(maxLine) // an error comes again when the lines are read
	var lines []string
	for len(text) > 0 && len(lines) < maxSample {
		line, rest, whole := bytes.Cut(text, []byte("\n"))
		if !whole && len(lines) > 0 && len(text) >= maxLine/2 {
			break // the line goes on
		}
		lines, text = append(lines, string(bytes.TrimSuffix(line, []byte("\r")))), rest
	}
	s.format.decide(lines)
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

// fill reads until the window holds so many entries or bytes; half of them while others wait to be spread.
func (s *source) fill(entries, bytes int) {
	for !s.done {
		room := 1
		if s.spread != nil && s.spread.size() > 0 {
			room = 2
		}
		if size := s.window.size(); size > 0 && (size >= entries/room || s.window.bytes >= bytes/room) {
			return
		}
		s.step()
		s.spreadSeconds(entries/2, bytes/2)
	}
}

// spreadSeconds moves requests into the window whose seconds are over: those that do not fit the same room.
func (s *source) spreadSeconds(entries, bytes int) {
	for s.spread != nil && s.spread.size() > 0 && (s.done || s.spread.size() > entries || s.spread.waiting.bytes > bytes) {
		for _, e := range s.spread.pop(s.done) {
			s.keep(e)
		}
	}
}

// keep puts an entry into the window, unless [Reader.readAhead] has kept it.
func (s *source) keep(e *Entry) {
	if !s.long[e.line] {
		s.window.push(e, e.Time)
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
	name, why := "", tooLongLine
	if !tooLong {
		name, why = s.format.read(copied, e)
	}
	if why != noFault {
		s.report.countSkipped(why)
		s.skipped(s.report, why, copied)
		return
	}
	if s.report.countFormat(name); s.report.Clock == nil {
		clock := e.clock
		s.report.Clock = &clock
	}
	s.timed, s.coarse = s.timed || e.Ends != 0, s.coarse || e.clock.coarse
	e.bytes = len(copied)
	if s.spread != nil && e.clock.coarse {
		s.spread.push(e)
	} else {
		s.keep(e)
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
