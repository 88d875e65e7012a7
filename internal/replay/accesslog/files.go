package accesslog

import (
	"cmp"
	"container/heap"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"sync/atomic"

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
		w.stream, r.options.Stdin, r.total = io.NopCloser(r.options.Stdin), nil, -1
		return w, nil
	}
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	switch {
	case info.IsDir():
		return nil, fmt.Errorf("%s is a directory", escape.Short(name, 200))
	case !info.Mode().IsRegular():
		r.total = -1
		w.stream, err = os.Open(name)
		return w, err
	case r.total >= 0:
		r.total += info.Size()
	}
	w.begins, err = beginning(name, &w.parser)
	return w, err
}

// openDue opens the files that begin before the next entry of the open files.
func (r *Reader) openDue() {
	for len(r.waiting) > 0 {
		w := r.waiting[0]
		if len(r.open) > 0 && w.begins > r.open[0].window.first().Time {
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
	s := &source{index: w.index, parser: &w.parser, report: report, malformed: r.summary.malformed, entry: r.entry, long: w.long}
	s.open(w.stream, &counter{w.stream, r.read})
	s.fill(r.roomPerFile())
	if s.window.size() == 0 {
		s.close()
		return
	}
	heap.Push(&r.open, s)
}

// counter counts the bytes that are read through it.
type counter struct {
	io.Reader

	read *atomic.Int64
}

// Read implements io.Reader.
func (c *counter) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.read.Add(int64(n))
	return n, err
}

// sources is a heap of open files, each with an entry at least. The file with the earliest entry is the
// first; of equal ones, the file that was named first.
type sources []*source

func (s sources) Len() int      { return len(s) }
func (s sources) Swap(i, j int) { s[i], s[j] = s[j], s[i] }

func (s sources) Less(i, j int) bool {
	return cmp.Or(
		cmp.Compare(s[i].window.first().Time, s[j].window.first().Time),
		cmp.Compare(s[i].index, s[j].index),
	) < 0
}

// Push implements heap.Interface.
func (s *sources) Push(x any) {
	if source, ok := x.(*source); ok {
		*s = append(*s, source)
	}
}

// Pop implements heap.Interface.
func (s *sources) Pop() any {
	last := len(*s) - 1
	source := (*s)[last]
	(*s)[last] = nil
	*s = (*s)[:last]
	return source
}
