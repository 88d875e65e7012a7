package accesslog

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/escape"
)

// waiting is a file that is not open yet.
type waiting struct {
	index  int
	begins int64          // the time of its first entry
	parser parser         // in its state after the first lines
	long   map[int64]bool // lines whose requests [Reader.readAhead] has kept
	stream io.ReadCloser  // for what cannot be opened twice, such as a pipe
}

// close closes the stream, if there is one.
func (w *waiting) close() {
	if w.stream != nil {
		_ = w.stream.Close()
	}
}

// look finds out when a file begins. A stream that cannot be read twice counts as the earliest.
func (r *Reader) look(index int, name string) (*waiting, error) {
	w := &waiting{index: index, begins: math.MinInt64, parser: newParser(&r.options)}
	if name == "-" {
		if r.options.Stdin == nil {
			return nil, errors.New("there is no standard input to read")
		}
		w.stream, r.options.Stdin = io.NopCloser(r.options.Stdin), nil
		return w, nil
	}
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, fmt.Errorf("%s is a directory", escape.Short(name, 200))
	case !info.Mode().IsRegular():
		w.stream, err = os.Open(name)
		return w, err
	}
	w.begins, err = beginning(name, &w.parser)
	return w, err
}

// openDue opens the files that begin before the next entry of the open files.
func (r *Reader) openDue() {
	for len(r.waiting) > 0 {
		w := r.waiting[0]
		if r.open.Len() > 0 && w.begins > (*r.open.First()).window.first().Time {
			return
		}
		r.waiting = r.waiting[1:]
		r.begin(w)
	}
}

// begin opens a file and fills its window.
func (r *Reader) begin(w *waiting) {
	report := &r.summary.Files[w.index]
	if w.stream == nil {
		file, err := os.Open(report.Name)
		if err != nil {
			report.Err = err
			return
		}
		w.stream = file
	}
	s := &source{index: w.index, parser: &w.parser, report: report, malformed: r.summary.malformed, long: w.long}
	s.open(w.stream, w.stream)
	s.fill(r.roomPerFile())
	if s.window.size() == 0 {
		s.close()
		return
	}
	r.open.Push(s)
}
