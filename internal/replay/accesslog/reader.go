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

// The bounds of the window in which lines are sorted.
const (
	// DefaultWindow is the default of Options.Window.
	DefaultWindow = 65_536

	// maxWindowBytes bounds the text in the window, for lines of any length.
	maxWindowBytes = 64 << 20
)

// Options are the logs to read, and how to read them.
type Options struct {
	// Files are read as one log, in any order. The name - is Stdin.
	Files []string

	// Stdin is read for the name -.
	Stdin io.Reader

	// Window is the number of entries, of all files together, within which lines are sorted by arrival.
	// Default: [DefaultWindow]. It bounds the memory, by default to some 60 MB for short lines and 150 MB
	// for long ones, because the window also ends at 64 MiB of text.
	Window int

	// SkipHeaders leaves Entry.Header nil, which is faster.
	SkipHeaders bool

	// TimeLayouts are Go's layouts for times in JSON, or Caddy's names of them. They are tried before all
	// others. They come from the time_format of the configuration that wrote the log.
	TimeLayouts []string

	// DurationFormat is the duration_format of the configuration that wrote the log. Without it the unit of
	// whole numbers, milliseconds or nanoseconds, is guessed.
	DurationFormat string

	// LongRequests returns also those requests at their start that ran for longer than the window covers, such
	// as WebSockets, which a log has hours after those that they ran beside. Files are read twice for it. A
	// stream that cannot be read twice has them late. Without a duration in a log it changes nothing.
	LongRequests bool

	// Responses keeps the header of the response for Entry.ResponseHeader.
	Responses bool
}

// Reader returns the requests of logs in the order of their arrival. Apart from Progress it is for a single
// goroutine.
type Reader struct {
	options Options
	waiting []*waiting // files that are not open yet, the earliest first
	open    sources
	free    []*Entry
	given   *Entry // returned by the last call of Next
	last    int64  // its time
	headers headers
	summary Summary
	clients clients
	read    *atomic.Int64
	total   int64

	ahead  *Reader // reads the files for long requests before they are read; nil for no need
	long   window  // requests to return at their start, whose lines come too late
	onLate func(e *Entry)
}

// Open looks at all files and begins to read. It returns an error for a file that cannot be opened. Faults of
// the content are in the [Summary].
func Open(o Options) (*Reader, error) {
	if o.Window <= 0 {
		o.Window = DefaultWindow
	}
	r := &Reader{options: o, last: math.MinInt64, read: new(atomic.Int64), summary: Summary{Redacted: map[string]int64{}}}
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
	if o.LongRequests {
		r.planAhead()
	}
	return r, nil
}

// Next returns the next request, or [io.EOF] after the last one, and no other error. The entry and its header
// belong to the reader and are valid until the next call. A copy of the entry without the header may be kept.
// Its strings refer to the memory of the whole line: clone a string that is kept for long.
//
// Times never decrease. A request that leaves the window after a later one has the time of that one, and is
// counted in Summary.Late.
func (r *Reader) Next() (*Entry, error) {
	if r.given != nil {
		r.free, r.given = append(r.free, r.given), nil
	}
	r.readAhead()
	r.openDue()
	if e := r.nextLong(); e != nil {
		r.prepare(e)
		return e, nil
	}
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
	r.prepare(e)
	return e, nil
}

// prepare completes an entry that Next returns.
func (r *Reader) prepare(e *Entry) {
	r.given = e
	r.summary.Entries++
	if e.Time < r.last {
		if r.onLate != nil {
			r.onLate(e)
		}
		r.summary.Late++
		r.summary.LatestBy = max(r.summary.LatestBy, time.Duration(r.last-e.Time)*time.Microsecond)
		e.Time = r.last
	}
	if r.last = e.Time; e.Ends == 0 {
		r.summary.Untimed++
	} else {
		e.Ends = max(e.Ends, e.Time)
	}
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

// entry returns an entry to fill.
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

// Progress returns how many bytes of the files have been read, as stored on disk, and how many there are; 0 if
// that is unknown, as for a pipe. Any goroutine may call it at any time.
func (r *Reader) Progress() (read, total int64) { return r.read.Load(), max(0, r.total) }

// Close closes all files. Next returns [io.EOF] from then on.
func (r *Reader) Close() error {
	for _, s := range r.open {
		s.close()
	}
	for _, w := range r.waiting {
		w.close()
	}
	r.open, r.waiting, r.long = nil, nil, window{}
	return nil
}
