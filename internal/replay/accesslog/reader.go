package accesslog

import (
	"cmp"
	"container/heap"
	"fmt"
	"io"
	"math"
	"slices"
	"sync/atomic"
	"time"
)

// Limits of the window in which lines are sorted.
const (
	// DefaultWindow is how many entries the window holds, unless Options say otherwise.
	DefaultWindow = 65_536

	// maxWindowBytes is how much text it holds, whatever the length of the lines.
	maxWindowBytes = 64 << 20
)

// Options tell what to read.
type Options struct {
	// Files are read as one log, whatever their order. The name - is Stdin.
	Files []string

	// Stdin is read for the name -.
	Stdin io.Reader

	// Window is the number of entries, of all files together, within which lines that are not in
	// the order of arrival are sorted. Default: [DefaultWindow]. It is what bounds the memory, by
	// default to some 60 MB for short lines and 150 MB for long ones: 64 MiB of text end it too.
	Window int

	// SkipHeaders leaves Entry.Header nil, which is faster where nobody looks at it.
	SkipHeaders bool

	// TimeLayouts are layouts of Go for times in JSON, or Caddy's names of them, that are tried before
	// all others. They are the time_format of the configuration that wrote the log.
	TimeLayouts []string

	// DurationFormat is the duration_format of the configuration that wrote the log. Without it whole
	// numbers are taken for milliseconds or nanoseconds, whichever they look like.
	DurationFormat string

	// Responses keeps the header of the response for Entry.ResponseHeader.
	Responses bool
}

// Reader hands out the requests of logs in the order of their arrival. It is for a single goroutine,
// but for Progress.
type Reader struct {
	options Options
	waiting []*waiting // files that are not open yet, the earliest first
	open    sources
	free    []*Entry
	given   *Entry // what the last call of Next returned
	last    int64  // its time
	headers headers
	summary Summary
	clients clients
	read    atomic.Int64
	total   int64
}

// Open looks at all files and begins to read. An error tells of a file that cannot be opened;
// whatever is wrong with its content is in the [Summary].
func Open(o Options) (*Reader, error) {
	if o.Window <= 0 {
		o.Window = DefaultWindow
	}
	r := &Reader{options: o, last: math.MinInt64, summary: Summary{Redacted: map[string]int64{}}}
	r.summary.Files = make([]FileReport, len(o.Files))
	for i, name := range o.Files {
		r.summary.Files[i].Name = name
		w, err := r.look(i, name)
		if err != nil {
			_ = r.Close()
			return nil, fmt.Errorf("reading logs: %w", err)
		}
		r.waiting = append(r.waiting, w)
	}
	slices.SortStableFunc(r.waiting, func(a, b *waiting) int { return cmp.Compare(a.begins, b.begins) })
	return r, nil
}

// Next returns the next request, [io.EOF] after the last one and no other error. The entry and its
// header are the reader's and valid until the next call; a copy of the entry without the header may
// be kept. Its strings share the memory of its line, so that one to be kept for long is better cloned.
//
// Time never runs backwards: a request that comes out of the window later than its time has the time
// of the one before and is counted in Summary.Late.
func (r *Reader) Next() (*Entry, error) {
	if r.given != nil {
		r.free, r.given = append(r.free, r.given), nil
	}
	r.openDue()
	if len(r.open) == 0 {
		return nil, io.EOF
	}
	s := r.open[0]
	e := s.window.pop()
	s.fill(r.roomPerFile())
	if s.window.size() > 0 {
		heap.Fix(&r.open, 0)
	} else {
		heap.Pop(&r.open)
		s.close()
	}
	r.hand(e)
	return e, nil
}

// hand prepares an entry for who asked for it.
func (r *Reader) hand(e *Entry) {
	r.given = e
	r.summary.Entries++
	if e.Time < r.last {
		r.summary.Late++
		r.summary.LatestBy = max(r.summary.LatestBy, time.Duration(r.last-e.Time)*time.Microsecond)
		e.Time = r.last
	}
	r.last = e.Time
	if r.summary.Entries == 1 {
		r.summary.First = e.Time
	}
	r.summary.Last = e.Time
	r.clients.see(e)
	if e.zoneless {
		r.summary.Zoneless++
	}
	if !r.options.SkipHeaders {
		r.headers.fill(e)
	}
	r.summary.countRedacted(e)
}

// entry is one that may be filled.
func (r *Reader) entry() *Entry {
	last := len(r.free) - 1
	if last < 0 {
		return &Entry{}
	}
	e := r.free[last]
	r.free = r.free[:last]
	return e
}

// roomPerFile returns how much of the window one open file may use, in entries and in bytes.
func (r *Reader) roomPerFile() (entries, bytes int) {
	files := max(1, len(r.open))
	return max(1, r.options.Window/files), maxWindowBytes / files
}

// Progress tells how many bytes of the files have been read, as they are on disk, and how many there
// are: 0 where that is not known, as of a pipe. It may be called by any goroutine at any time.
func (r *Reader) Progress() (read, total int64) { return r.read.Load(), max(0, r.total) }

// Close closes what is open; Next returns [io.EOF] from then on.
func (r *Reader) Close() error {
	for _, s := range r.open {
		s.close()
	}
	for _, w := range r.waiting {
		w.close()
	}
	r.open, r.waiting = nil, nil
	return nil
}
