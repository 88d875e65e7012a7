package accesslog

import (
	"cmp"
	"container/heap"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"sync/atomic"
	"time"
)

// Reader returns the requests of logs in the order of their arrival. It is for a single goroutine.
type Reader struct {
	options ReaderOptions
	waiting []*source  // files that are not open yet, the earliest first
	open    sourceHeap // files with an entry at least

	last    int64 // the time of the last entry
	coarse  bool  // that of one was in whole seconds
	summary Summary

	ahead  *Reader // reads the files for long requests before they are read; nil for no need
	long   window  // requests to return at their start, whose lines come too late
	onLate func(e *Entry)
}

func newReader(o ReaderOptions) *Reader {
	r := &Reader{options: o, last: math.MinInt64, summary: Summary{Redacted: map[string]int64{}, Files: make([]FileReport, len(o.Files))}}
	for i, name := range o.Files {
		r.summary.Files[i].Name = name
	}
	return r
}

// Open looks at all files and begins to read. It returns an error for a file that cannot be opened. Faults of
// the content are in the [Summary].
func Open(o ReaderOptions) (*Reader, error) {
	if o.Window <= 0 {
		o.Window = defaultWindow
	}
	if o.Read == nil {
		o.Read = new(atomic.Int64)
	}
	r := newReader(o)
	for i, name := range o.Files {
		s, err := newSource(i, name, &r.options)
		if err != nil {
			_ = r.Close()
			return nil, fmt.Errorf("reading logs: %w", err)
		}
		r.waiting = append(r.waiting, s)
	}
	slices.SortStableFunc(r.waiting, func(a, b *source) int { return cmp.Compare(a.begins, b.begins) })
	if o.LongRequests {
		r.planAhead()
	}
	return r, nil
}

// Next returns the next request, or [io.EOF] after the last one, and no other error. The strings of the entry refer to
// the memory of the whole line: clone a string that is kept for long.
//
// Times never decrease. A request that leaves the window after a later one has the time of that one, and is
// counted in Summary.Late.
func (r *Reader) Next() (*Entry, error) {
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

// openDue opens the files that begin before the next entry of the open files, and fills their windows.
func (r *Reader) openDue() {
	for len(r.waiting) > 0 {
		s := r.waiting[0]
		if len(r.open) > 0 && s.begins > r.open[0].window.first().Time {
			return
		}
		r.waiting = r.waiting[1:]
		s.report, s.skipped = &r.summary.Files[s.index], r.summary.skipped
		if s.file == nil {
			file, err := os.Open(s.report.Name)
			if err != nil {
				s.report.Err = err
				continue
			}
			s.file = file
		}
		s.open(counted{s.file, r.options.Read})
		s.decide()
		s.report.Client = s.format.clientPlace()
		if !r.options.AtSecondStart {
			s.spread = new(spreader)
		}
		if s.fill(r.roomPerFile()); s.window.size() > 0 {
			heap.Push(&r.open, s)
		} else {
			s.close()
		}
	}
}

// Size returns how many bytes of files are to be read in all, packed as they are, before the first request is; 0 if that is not known, as of
// streams.
func (r *Reader) Size() (size int64) {
	for _, s := range r.waiting {
		if s.size == 0 && s.file != nil {
			return 0
		}
		size += s.size
	}
	if r.ahead != nil {
		size += r.ahead.Size()
	}
	return size
}

// prepare completes an entry that Next returns.
func (r *Reader) prepare(e *Entry) {
	s := &r.summary
	s.Entries++
	if e.Time < r.last {
		if r.onLate != nil {
			r.onLate(e)
		}
		s.Late++
		s.LatestBy = max(s.LatestBy, time.Duration(r.last-e.Time)*time.Microsecond)
		e.Time = r.last
	}
	if r.last = e.Time; e.Ends != 0 {
		e.Ends = max(e.Ends, e.Time)
	}
	r.coarse = r.coarse || e.clock.coarse
	switch {
	case r.onLate != nil:
		return
	case e.Client == "":
		s.NoClient++
	case e.peer:
		s.PeerClients++
	case e.lastForwarded:
		s.LastForwarded++
	}
	if e.clock.moment == unknownMoment {
		s.UnknownMoment++
	}
	if e.zoneless {
		s.Zoneless++
	}
	e.fillHeader()
	s.countRedacted(e)
}

// roomPerFile returns how much of the window one open file may use, in entries and in bytes.
func (r *Reader) roomPerFile() (entries, bytes int) {
	files := max(1, len(r.open))
	return max(1, r.options.Window/files), maxWindowBytes / files
}

// Coarse reports whether a request's time was in whole seconds, as far as the logs have been looked at.
func (r *Reader) Coarse() bool {
	isCoarse := func(s *source) bool { return s.coarse }
	return r.coarse || slices.ContainsFunc(r.open, isCoarse) || slices.ContainsFunc(r.waiting, isCoarse)
}

// Close closes all files. Next returns [io.EOF] from then on.
func (r *Reader) Close() error {
	for _, s := range append(r.open, r.waiting...) {
		s.close()
	}
	r.open, r.waiting, r.long = nil, nil, window{}
	return nil
}
